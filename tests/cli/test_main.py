"""The command line as a whole: help is instant, errors are one sentence with exit code 2, a stop is 130."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
import typer

from bertworks import __version__
from bertworks.cli import main as command_line
from bertworks.cli.common import StoppedError
from bertworks.cli.console import Progress, duration, print_json
from bertworks.errors import UsageError


def run_python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)


@pytest.mark.parametrize("arguments", [["--help"], ["embed", "--help"], ["fill", "--help"], ["--version"], []])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    program = (
        "import sys\n"
        "from bertworks.cli.main import main\n"
        f"code = main({arguments!r})\n"
        "heavy = {'torch', 'numpy', 'pyarrow', 'tokenizers', 'sklearn', 'huggingface_hub'} & set(sys.modules)\n"
        "assert code == 0, code\n"
        "assert not heavy, heavy\n"
    )
    result = run_python(program)
    assert result.returncode == 0, result.stderr
    assert result.stdout


def test_reading_and_writing_need_no_torch() -> None:
    program = (
        "import sys, bertworks.config, bertworks.data.readers, bertworks.data.outputs\n"
        "assert 'torch' not in sys.modules\n"
    )
    result = run_python(program)
    assert result.returncode == 0, result.stderr


def test_help_has_every_command_and_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["--help"]) == 0
    listed = capsys.readouterr().out
    for name in ("demo", "embed", "fill", "info", "convert"):
        assert name in listed
        assert command_line.main([name, "--help"]) == 0
        assert f"bertworks {name} " in capsys.readouterr().out


@pytest.mark.parametrize("command", [[], ["pretrain"], ["search", "build"]])
def test_flags_are_shown_without_a_value(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main([*command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--help" in shown
    assert "bool" not in shown.lower()


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["--version"]) == 0
    assert capsys.readouterr().out == f"bertworks {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["emed"], "no such command 'emed'"),
        (["embed"], "missing "),
        (["embed", "x", "-o", "y.npy", "--nonsense"], "no such option: --nonsense"),
        (["embed", "x", "-o", "y.npy", "--batch-tokens", "many"], "--batch-tokens many is not a whole number"),
        (["embed", "x", "-o", "y.npy", "--threads", "0"], "--threads 0 is too small; it must be at least 1"),
        (["serve", "--port", "70000"], "--port 70000 is too large; it must be at most 65535"),
        (["serve", "--drain", "long"], "--drain long is not a number"),
    ],
)
def test_wrong_options_are_one_sentence(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert words in captured.err
    assert "--help)" in captured.err
    assert captured.err.count("\n") == 1


@pytest.fixture
def command_that(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Replace the application by one with a single command that does as told."""

    def replace(body: Callable[[], None]) -> None:
        app = typer.Typer()
        app.command()(body)
        monkeypatch.setattr(command_line, "app", app)

    return replace


@pytest.mark.parametrize(
    ("error", "code", "expected"),
    [
        (UsageError("the path [bold]x[/bold] is wrong"), 2, "error: the path [bold]x[/bold] is wrong\n"),
        (StoppedError("7 rows are kept"), 130, "stopped: 7 rows are kept\n"),
        (KeyboardInterrupt(), 130, "stopped\n"),
        (typer.Exit(5), 5, ""),
    ],
)
def test_errors_and_exit_codes(
    command_that: Callable[[Callable[[], None]], None],
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    expected: str,
) -> None:
    def body() -> None:
        raise error

    command_that(body)
    assert command_line.main([]) == code
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize("fault", [ZeroDivisionError, EOFError])
def test_our_own_faults_keep_their_traceback(
    command_that: Callable[[Callable[[], None]], None], fault: type[Exception]
) -> None:
    def body() -> None:
        raise fault

    command_that(body)
    with pytest.raises(fault):
        command_line.main([])


def test_a_group_alone_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["vectors"]) == 2
    shown = capsys.readouterr()
    assert "similar" in shown.out + shown.err
    assert "error" not in shown.err


def test_a_closed_pipe_is_no_error() -> None:
    program = (
        "import sys, typer\n"
        "from bertworks.cli import main as command_line\n"
        "app = typer.Typer()\n"
        "@app.command()\n"
        "def body() -> None:\n"
        "    for number in range(100_000):\n"
        "        print(number)\n"
        "command_line.app = app\n"
        "sys.argv = ['bertworks']\n"
        "command_line.run()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"0\n"
        process.stdout.close()
        assert process.stderr.read() == b""


def test_json_is_one_line_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"text": "åäö", "rows": 3})
    assert capsys.readouterr() == ('{"text": "åäö", "rows": 3}\n', "")


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.04, "0.0 s"), (59.94, "59.9 s"), (185, "3 min 05 s"), (9600, "2 h 40 min")]
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_plain_progress_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """40 rows from an earlier run; 20 s for the next 40; a quarter of the bytes is done at row 60."""
    clock = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    with Progress("embedding", 1000, finished_rows=40) as progress:
        progress.begin_chunk(40, 333)
        clock[0] += 1.0
        progress.within_chunk(1, 4)  # too soon for another line
        clock[0] += 9.0
        progress.within_chunk(1, 2)
        clock[0] += 10.0
        progress.end_chunk()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "embedding: 60 rows, 2 rows/s, 25%, 1 min 30 s left",
        "embedding: 80 rows, 2 rows/s, 33%, 1 min 20 s left",
    ]


def test_quiet_progress_says_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertworks.cli.console.PLAIN_INTERVAL_SECONDS", 0.0)
    with Progress("embedding", None, quiet=True) as progress:
        progress.begin_chunk(10, None)
        progress.end_chunk()
    assert capsys.readouterr() == ("", "")


def test_progress_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with Progress("embedding", None) as progress:
        progress.begin_chunk(10, None)
        progress.within_chunk(1, 2)
        progress.end_chunk()
    assert "10 rows" in capsys.readouterr().err
