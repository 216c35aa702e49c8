"""The documentation is true: its blocks are run in order, each document in a folder of its own, with the offline model.

    ```sh        every line is run and must succeed
    ```console   lines after `$ ` are run; what follows is the output they must give. Numbers may differ (times, rates,
                 last digits), a line `…` stands for any lines, and `…` within a line for anything
    ```python    run in one namespace per document; with `>>>`, the results are compared as in a doctest

A block after `<!-- not run: reason -->` is left alone, and one after `<!-- needs: sst2/train.tsv -->` is run where the
shared data has that file, which then stands in the document's folder under that name. Output that starts with `error:`
belongs to exit code 2.
"""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer

from bertworks.cli.main import app
from tests.command_server import write_client
from tests.conftest import SHARED

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
SHOWN = ("", "text", "json", "toml", "html", "mermaid")  # languages that are only looked at
NOT_RUN = re.compile(r"<!-- not run: (.+) -->")
NEEDS = re.compile(r"<!-- needs: (.+) -->")
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")
SKIP_TAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


SETTINGS = {
    "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
    "NO_COLOR": "1",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",  # commands this short are quicker so where other programs run
}


@dataclass(frozen=True)
class Block:
    document: Path
    line: int
    language: str
    text: str
    not_run: str | None
    needs: str | None = None

    @property
    def place(self) -> str:
        return f"{self.document.name}:{self.line}"


def blocks(document: Path, text: str | None = None) -> Iterator[Block]:
    """The fenced blocks of a document."""
    lines = (document.read_text(encoding="utf-8") if text is None else text).splitlines()
    before = ""
    start: int | None = None
    for number, line in enumerate(lines, start=1):
        if line.startswith("```"):
            if start is None:
                start = number
            else:
                comment, needs = NOT_RUN.fullmatch(before), NEEDS.fullmatch(before)
                content = "\n".join(lines[start : number - 1])
                language = lines[start - 1][3:].strip()
                yield Block(document, start, language, content, comment and comment[1], needs and needs[1])
                start, before = None, ""
        elif start is None and line.strip():
            before = line.strip()
    assert start is None, f"{document.name}:{start}: this block has no end"


def commands(block: Block) -> list[tuple[str, str | None]]:
    """The commands of a block and the output that each must give (None where the block does not show it)."""
    if block.language == "sh":
        joined = block.text.replace("\\\n", " ")
        return [(line, None) for line in joined.splitlines() if line.strip() and not line.startswith("#")]
    found: list[tuple[str, str | None]] = []
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, *output = part.replace("\\\n", " ").splitlines()
        found.append((command, "\n".join(output).strip("\n")))
    return found


def matches(expected: str, actual: str) -> bool:
    """Whether the output is as shown, numbers and the amount of space aside."""

    def plain(text: str) -> str:
        text = re.sub(r"\d[\d,.]*(?<=\d)", "0", text)
        text = re.sub(r"0 (min 0 s|h 0 min)", "0 s", text)  # a slow machine
        text = re.sub(r"0 \*$", "0", text, flags=re.MULTILINE)  # the mark of the best figure
        return "".join(re.sub(r"\s+", " ", line).strip() + "\n" for line in text.strip().splitlines())

    pattern = re.escape(plain(expected)).replace("\\\n", "\n")
    pattern = re.sub(r"^…\n", "(?:.*\\\\n)*?", pattern, flags=re.MULTILINE).replace("…", ".*")
    return re.fullmatch(pattern, plain(actual)) is not None


@dataclass
class Runner:
    folder: Path
    environment: dict[str, str]
    namespace: dict[str, Any]

    def run(self, block: Block) -> None:
        if block.language == "python":
            self.run_python(block)
            return
        for command, expected in commands(block):
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            wanted = 2 if expected is not None and expected.startswith("error:") else 0
            actual = done.stderr if wanted else done.stdout  # else standard error is progress, where a machine is slow
            problem = f"{block.place}: {command}\nexit code {done.returncode}\n{done.stdout}{done.stderr}"
            assert done.returncode == wanted, problem
            if expected is not None:
                assert matches(expected, actual), f"{problem}\n--- instead of\n{expected}"

    def run_python(self, block: Block) -> None:
        if ">>>" not in block.text:
            exec(compile(block.text, block.place, "exec"), self.namespace)
            return
        test = doctest.DocTestParser().get_doctest(
            block.text + "\n", self.namespace, block.place, str(block.document), block.line
        )
        said: list[str] = []
        runner = doctest.DocTestRunner(optionflags=SKIP_TAGS, verbose=False)
        runner.run(test, out=said.append, clear_globs=False)
        self.namespace.update(test.globs)
        assert not said, "".join(said)


@pytest.fixture(scope="module")
def command_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket of a process that is any `bertworks` command at once (`command_server`)."""
    address = tmp_path_factory.mktemp("commands") / "socket"
    program = [sys.executable, "-m", "tests.command_server", str(address)]
    process = subprocess.Popen(program, cwd=ROOT, env=os.environ | SETTINGS)
    while not address.exists():
        assert process.poll() is None
        time.sleep(0.1)
    yield address
    process.kill()
    process.wait()


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command_server: Path) -> Runner:
    """An empty folder, and a `bertworks` that is the one of this tree."""
    programs = tmp_path / "bin"
    programs.mkdir()
    write_client(programs / "bertworks", command_server)
    (programs / "python").symlink_to(sys.executable)
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    environment = os.environ | SETTINGS | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    return Runner(folder, environment, {"__name__": "__main__"})


def bring(name: str, folder: Path) -> bool:
    """Put a file of the shared data into the folder, under the name that the document has for it."""
    source = Path(os.environ.get("BERTWORKS_DATA") or SHARED / "data") / name
    if source.is_file() and not (folder / name).exists():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(source.resolve())
    return source.is_file()


LONG = ("finetuning.md",)
"""Documents whose commands take minutes: run by `make docs` and `make test-slow`."""


@pytest.mark.parametrize(
    "document",
    [pytest.param(path, marks=pytest.mark.slow if path.name in LONG else ()) for path in DOCUMENTS],
    ids=lambda path: path.name,
)
def test_blocks_run(document: Path, runner: Runner, minilm_directory: Path, weights_minidata: Path) -> None:
    # Where a document speaks of this directory, it stands for a masked language model that the reader has downloaded.
    shutil.copytree(weights_minidata, runner.folder / "albert-tiny-chinese")
    for block in blocks(document):
        if block.needs is not None and not all(bring(name, runner.folder) for name in block.needs.split(", ")):
            continue
        if block.not_run is None and block.language not in SHOWN:
            assert block.language in ("sh", "console", "python"), f"{block.place}: how is {block.language!r} run?"
            runner.run(block)


@pytest.mark.parametrize("document", [*DOCUMENTS, ROOT / "CHANGELOG.md"], ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in LINK.findall(document.read_text(encoding="utf-8")):
        if not re.match(r"https?://|mailto:", target):
            assert (document.parent / target).exists(), f"{document.name} links to {target}, which is not there"


def test_the_readme_lists_the_commands_that_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `bertworks ([a-z]+)", text, flags=re.MULTILINE))
    assert listed == set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def test_every_command_has_a_page() -> None:
    """In the table of docs/commands.md, with its subcommands; the page's section is there."""
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    listed: set[str] = set()
    for names, page, section in re.findall(
        r"^\| (`.+`) \| \[.+\]\(([\w-]+\.md)#?([\w-]*)\) \|$", text, flags=re.MULTILINE
    ):
        first, *others = re.findall(r"`([a-z ]+)`", names)
        listed |= {first, *(f"{first.split()[0]} {other}" if " " in first else other for other in others)}
        titles = re.findall(r"^#+ (.+)$", (ROOT / "docs" / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert not section or section in {re.sub(r"[^\w-]", "", title.lower().replace(" ", "-")) for title in titles}
    commands_there = set()
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        commands_there |= {f"{name} {each}" for each in command.commands} if hasattr(command, "commands") else {name}
    assert listed == commands_there


# The rules above, on made-up documents.


def test_blocks_are_found() -> None:
    text = (
        "words\n```sh\na\nb\n```\n<!-- not run: needs the Hub -->\n\n```console\n$ c\n```\n"
        "<!-- needs: a/b.tsv -->\n```\nd\n```\n"
    )
    found = list(blocks(ROOT / "made-up.md", text))
    assert [(block.language, block.text, block.not_run) for block in found] == [
        ("sh", "a\nb", None),
        ("console", "$ c", "needs the Hub"),
        ("", "d", None),
    ]
    assert [block.line for block in found] == [2, 8, 12]
    assert [block.needs for block in found] == [None, None, "a/b.tsv"]


def test_commands_are_found() -> None:
    console = Block(ROOT, 1, "console", "$ echo a \\\n  b\na b\n\n$ true\n$ cat x\n1\n2", None)
    assert commands(console) == [("echo a    b", "a b"), ("true", ""), ("cat x", "1\n2")]
    assert commands(Block(ROOT, 1, "sh", "# why\necho a\n\necho b", None)) == [("echo a", None), ("echo b", None)]


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        ("63 rows in 0.4 s", "63 rows in 12.75 s\n", True),
        ("63 rows in 0.4 s", "63 rows in 1 min 05 s\n", True),
        ("a   b", "a b", True),
        ("a\n…\nd", "a\nb\nc\nd\n", True),
        ("a\n…\nd", "a\nd\n", True),
        ("a … d", "a b c d", True),
        ("a", "a\nb", False),
        ("a\n…\nd", "a\nb\nc\n", False),
        ("(a) [b] $c", "(a) [b] $c", True),
        ("1,234 rows.", "5 rows.", True),
    ],
)
def test_outputs_are_compared(expected: str, actual: str, same: bool) -> None:
    assert matches(expected, actual) is same


def test_a_wrong_block_is_noticed(runner: Runner) -> None:
    for language, text in [
        ("sh", "false"),
        ("console", "$ echo a\nb"),
        ("console", "$ true\nerror: not so"),
        ("python", ">>> 1 + 1\n3"),
    ]:
        with pytest.raises(AssertionError):
            runner.run(Block(ROOT / "made-up.md", 1, language, text, None))
    runner.run(Block(ROOT / "made-up.md", 1, "python", "a = 3", None))
    runner.run(Block(ROOT / "made-up.md", 1, "python", ">>> a + 1\n4", None))
