"""The wheel is whole: what the package reads at run time is inside, and it runs where there is no checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PROGRAM = """
import shlex

import bertworks
from bertworks.cli.main import main

print(bertworks.__file__)
for line in (
    "demo --files-only -o samples",
    "fill 'She opened the [MASK] and went into the house.'",
    "embed samples/library.txt -o library.npy",
    "corpus build samples/library.txt --document row --tokenizer minilm -o corpus",
    "pretrain corpus --size tiny --steps 1 --set train.batch_tokens=256 -o run",
):
    assert main(shlex.split(line)) == 0, line
"""
NOT_PACKAGED = re.compile(r"__pycache__|\.pyc$|\.part")


def run(command: list[str], **options: object) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return str(done.stdout)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel, and the source archive that it was made from."""
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)])
    return folder


@pytest.mark.slow
def test_the_wheel_has_every_file_of_the_package(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("bertworks/")}
    package = ROOT / "src" / "bertworks"
    files = {f"bertworks/{path.relative_to(package).as_posix()}" for path in package.rglob("*") if path.is_file()}
    assert inside == {name for name in files if not NOT_PACKAGED.search(name)}
    for needed in (
        "page.css",
        "py.typed",
        "samples/messages.csv",
        "train/recipes/modern.toml",
        "encoders/bertworks-en/config.json",
    ):
        assert f"bertworks/{needed}" in inside
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "README.md",
        "LICENSE",
        "mkdocs.yml",
        "benchmarks/cloze_questions.jsonl",
        "benchmarks/english_card.md",
        "tests/test_packaging.py",
    } <= names
    assert not any(".cache" in name for name in names)


@pytest.mark.slow
def test_the_wheel_runs_in_an_empty_folder(dist: Path, tmp_path: Path) -> None:
    """In a new environment that sees this one's packages (they take minutes to install), but not the checkout."""
    place = tmp_path / "venv"
    venv.create(place, with_pip=False)
    (wheel,) = dist.glob("*.whl")
    scripts = place / ("Scripts" if os.name == "nt" else "bin")
    (site,) = place.rglob("site-packages")
    run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(site), str(wheel)])
    (site / "dependencies.pth").write_text(next(path for path in sys.path if path.endswith("site-packages")) + "\n")
    folder = tmp_path / "empty"
    folder.mkdir()
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "BERTWORKS"))}
    clean |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    said = run([str(scripts / "python"), "-c", PROGRAM], cwd=folder, env=clean)
    assert Path(said.splitlines()[0]).is_relative_to(site)
    assert "samples/messages.csv" in said
    assert "She opened the door and went into the house." in said
    assert "63 rows" in said
    assert (folder / "run" / "report.html").exists()


def test_every_extra_that_a_sentence_names_exists() -> None:
    """`pip install 'bertworks[serve]'` in an error or a page is an extra of the package."""
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    named = {
        extra.strip()
        for path in sources
        for group in re.findall(r"'(?:bertworks|\.)\[([a-z, ]+)\]'", path.read_text(encoding="utf-8"))
        for extra in group.split(",")
    }
    assert named
    assert named <= PROJECT["optional-dependencies"].keys()


def test_supported_versions_are_stated() -> None:
    minimum = PROJECT["requires-python"].removeprefix(">=")
    stated = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", name)]
    assert minimum == stated[0]
    assert f"Python {minimum} or newer" in (ROOT / "README.md").read_text(encoding="utf-8")
