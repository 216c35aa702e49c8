"""The shape of the house, read from the sources: imports go downward only, light parts stay light, files stay small."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "bertworks"
FILES = sorted(SOURCE.rglob("*.py"))

# What each part may import directly; it may also import whatever those may. `docs/architecture.md` draws this table.
BELOW: dict[str, tuple[str, ...]] = {
    "errors": (),
    "atomic": ("errors",),
    "workers": ("errors",),
    "compiled": (),
    "config": ("errors",),
    "page": (),
    "text": ("config", "atomic", "workers", "compiled"),
    "nn": ("errors", "compiled"),
    "data": ("text",),
    "vectors": ("data", "page"),
    "models": ("nn", "config"),
    "hub": ("models", "text"),
    "objectives": ("models", "data", "text"),
    "tasks": ("objectives", "hub", "models", "data", "text"),
    "train": ("objectives", "tasks", "hub", "vectors", "page"),
    "infer": ("hub", "models", "tasks", "vectors", "text"),
    "finetune": ("train", "infer", "tasks", "hub", "data", "page"),
    "translate": ("train", "infer", "objectives", "tasks", "hub", "data", "page"),
    "serve": ("infer",),
    "studio": ("serve", "infer", "train"),
    "sklearn": ("finetune", "train", "infer"),
    "ray": ("infer",),
    "cli": ("train", "finetune", "translate", "vectors", "infer", "serve", "studio", "sklearn", "ray"),
    "__main__": ("cli",),
}
WITHOUT_TORCH = ("errors", "atomic", "workers", "compiled", "config", "page", "text", "data", "vectors", "cli")
NEVER = ("transformers", "sentence_transformers", "gensim")
MAX_LINES = 600


class Import(NamedTuple):
    """One imported module, where, and whether it is imported as soon as its file is."""

    file: Path
    line: int
    module: str
    at_once: bool

    def __str__(self) -> str:
        return f"{self.file.relative_to(SOURCE.parent)}:{self.line}: imports {self.module}"


def part_of(file: Path) -> str:
    """`nn` for nn/packed.py, `errors` for errors.py, `` for the package's own __init__.py."""
    first = file.relative_to(SOURCE).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


def imports(file: Path, text: str | None = None) -> list[Import]:
    tree = ast.parse(file.read_text(encoding="utf-8") if text is None else text)
    return list(_imports(file, tree, at_once=True))


def _imports(file: Path, node: ast.AST, at_once: bool) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Import(file, node.lineno, alias.name, at_once)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, f"{file}:{node.lineno}: write imports from the top: from bertworks. …"
        for alias in node.names:  # `from bertworks import hub` imports bertworks.hub
            yield Import(file, node.lineno, f"{node.module}.{alias.name}", at_once)
    elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
        for statement in node.body:
            yield from _imports(file, statement, False)
        for statement in node.orelse:
            yield from _imports(file, statement, at_once)
    else:
        late = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from _imports(file, child, at_once and not late)


def reachable(part: str) -> set[str]:
    """The part itself and everything below it."""
    found = {part}
    for below in BELOW[part]:
        found |= reachable(below)
    return found


def upward(found: list[Import], part: str) -> list[str]:
    """The imports of our own parts that are not below `part`."""
    allowed = reachable(part)
    problems = []
    for entry in found:
        names = entry.module.split(".")
        if names[0] == "bertworks" and len(names) > 1 and names[1] in BELOW and names[1] not in allowed:
            problems.append(f"{entry}, which {part} may not (allowed: {', '.join(sorted(allowed))})")
    return problems


def test_every_part_has_its_place() -> None:
    unknown = {part_of(file) for file in FILES} - set(BELOW) - {""}
    assert not unknown, f"add {sorted(unknown)} to the table of this test and to docs/architecture.md"


@pytest.mark.parametrize("part", BELOW)
def test_imports_go_downward(part: str) -> None:
    problems = [line for file in FILES if part_of(file) == part for line in upward(imports(file), part)]
    assert not problems, "\n".join(problems)


def test_an_upward_import_would_be_seen() -> None:
    inside = SOURCE / "nn" / "made_up.py"
    for text in (
        "from bertworks.hub.families import FAMILIES",
        "from bertworks import hub",
        "def late():\n    import bertworks.cli.main",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from bertworks.models.model import Model",
    ):
        assert upward(imports(inside, text), "nn"), text
    assert not upward(imports(inside, "from bertworks.errors import UsageError\nimport torch"), "nn")
    lazy = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\ndef late():\n    import torch"
    assert [entry.at_once for entry in imports(inside, lazy) if entry.module == "torch"] == [False, False]
    assert [entry.at_once for entry in imports(inside, "try:\n    import torch\nfinally:\n    pass")] == [True]


def test_light_parts_do_not_import_torch_at_once() -> None:
    heavy = {part for part in BELOW if part not in WITHOUT_TORCH}
    problems = []
    for file in FILES:
        if part_of(file) not in (*WITHOUT_TORCH, ""):
            continue
        for entry in imports(file):
            names = entry.module.split(".")
            if entry.at_once and (names[0] == "torch" or (names[0] == "bertworks" and heavy & set(names[1:2]))):
                problems.append(str(entry))
    assert not problems, "\n".join(problems)


def test_the_package_and_the_help_do_not_import_torch() -> None:
    code = (
        "import sys, bertworks, bertworks.errors, bertworks.config, bertworks.cli.main as cli\n"
        "assert cli.main(['--help']) == 0 and cli.main(['embed', '--help']) == 0\n"
        "sys.exit('torch was imported' if 'torch' in sys.modules else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_reference_libraries_are_never_imported() -> None:
    problems = [str(entry) for file in FILES for entry in imports(file) if entry.module.split(".")[0] in NEVER]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_files_are_small(file: Path) -> None:
    count = len(file.read_text(encoding="utf-8").splitlines())
    assert count <= MAX_LINES, f"{count} lines: a file is one idea, readable in one sitting; split it"


def test_nn_sees_no_configuration() -> None:
    problems = [
        str(entry)
        for file in FILES
        if part_of(file) == "nn"
        for entry in imports(file)
        if entry.module.startswith("bertworks.config") or entry.module.endswith("Config")
    ]
    assert not problems, "\n".join(problems)
