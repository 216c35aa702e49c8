"""`bertworks`: the table of commands, and the one place where an error becomes a sentence and an exit code.

Exit codes: 0 done; 2 the input or an option was wrong (one sentence on standard error, never a traceback); 130
stopped by the user. Anything else is a fault of ours and keeps its traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

import bertworks
from bertworks.cli import (
    attend,
    convert,
    corpus,
    demo,
    distill,
    embed,
    evaluate,
    export,
    fill,
    finetune,
    generate,
    info,
    predict,
    pretrain,
    probe,
    quantize,
    search,
    serve,
    studio,
    tokenizer,
    translate,
    vectors,
)
from bertworks.cli.common import StoppedError
from bertworks.cli.console import print_error, print_note
from bertworks.errors import BertworksError

# The class of all usage errors (unknown option, missing argument), whether typer brings its own parser or builds on
# click.
OptionError: type[Exception] = typer.BadParameter.__mro__[2]
WRONG_NUMBERS = {
    "int_parsing": "is not a whole number",
    "float_parsing": "is not a number",
    "greater_than_equal": "is too small; it must be at least {ge}",
    "less_than_equal": "is too large; it must be at most {le}",
}
"""What the parser finds, as it names it, in our words."""

app = typer.Typer(
    name="bertworks",
    help="The classic encoder workflow: tokenize, pretrain, fine-tune, embed, look inside, serve.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("demo")(demo.demo)
app.command("embed")(embed.embed)
app.command("fill")(fill.fill)
app.command("generate")(generate.generate)
app.command("attend")(attend.attend)
app.command("studio")(studio.studio)
app.command("pretrain")(pretrain.pretrain)
app.command("distill")(distill.distill)
app.command("finetune")(finetune.finetune)
app.command("evaluate")(evaluate.evaluate)
app.command("predict")(predict.predict)
app.command("serve")(serve.serve)
app.command("quantize")(quantize.quantize)
app.command("info")(info.info)
app.command("convert")(convert.convert)
app.command("export")(export.export)
app.add_typer(tokenizer.app, name="tokenizer")
app.add_typer(corpus.app, name="corpus")
app.add_typer(probe.app, name="probe")
app.add_typer(search.app, name="search")
app.add_typer(translate.app, name="translate")
app.add_typer(vectors.app, name="vectors")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bertworks {bertworks.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _commands(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str]) -> int:
    """Run one command and return the exit code."""
    try:
        command = typer.main.get_command(app)
        _show_flags_alone(command)
        code = command.main(args=list(arguments), prog_name="bertworks", standalone_mode=False)
        sys.stdout.flush()  # here, so that a closed pipe is noticed where it is handled
        if code == 130:
            print_note("stopped")
        return code if isinstance(code, int) else 0
    except BertworksError as error:
        print_error(str(error))
        return 2
    except OptionError as error:
        if not error.format_message():  # type: ignore[attr-defined]
            return 2  # a group of commands without one of them: its help was shown
        print_error(_sentence(error))
        return 2
    except StoppedError as error:
        print_note(f"stopped: {error}")
        return 130
    except (KeyboardInterrupt, typer.Abort) as error:
        if isinstance(
            error.__cause__, EOFError
        ):  # the parser takes it for a person who has left; nobody was asked here
            raise error.__cause__ from None
        print_note("stopped")
        return 130
    except BrokenPipeError:
        # Whoever read our output has seen enough (`| head`). Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _show_flags_alone(command: Any) -> None:
    """Let --help show flags without `<bool>`, which nobody can give them: in all commands, and for --help itself."""
    for parameter in command.get_params(typer.Context(command)):
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    for below in getattr(command, "commands", {}).values():
        _show_flags_alone(below)


def _sentence(error: Exception) -> str:
    """The parser's message in our form, with where to read more."""
    message = _number_sentence(error) or error.format_message().strip().rstrip(".")  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "bertworks"
    return f"{message[:1].lower()}{message[1:]} (see {command} --help)"


def _number_sentence(error: Any) -> str | None:
    """What is wrong with the number of an option; None where something else is wrong."""
    errors = getattr(error.__cause__, "errors", None)
    found = errors()[0] if errors else {}
    words = WRONG_NUMBERS.get(found.get("type", ""))
    return words and f"{error.param.opts[0]} {found['input']} {words.format(**found.get('ctx', {}))}"


def run() -> None:
    """The entry point of the installed command."""
    sys.exit(main(sys.argv[1:]))
