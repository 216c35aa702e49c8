"""`bertworks vectors`: train word vectors, look at them, measure them, take bias out of them, convert them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bertworks.cli.common import (
    EncodingOption,
    FormatOption,
    JsonOption,
    NoHeaderOption,
    QuietOption,
    SeedOption,
    StoppedError,
    TextColumnOption,
    ThreadsOption,
    check_new_directory,
    tell_odd_files,
)
from bertworks.cli.console import StageProgress, duration, print_json, print_note, print_result, print_table
from bertworks.cli.training import OptionalSeed
from bertworks.errors import DataError, OutputError, choice

if TYPE_CHECKING:
    from bertworks.vectors import VectorsConfig, WordVectors
    from bertworks.vectors.bias import Bias
    from bertworks.vectors.evaluate import Analogies, Score, Similarities
    from bertworks.vectors.words import Neighbour

LEANS, SHOWN_LEANING = 0.0005, 10
"""A projection that is shown as 0.000 leans to no side."""

app = typer.Typer(help="Train word vectors, look at them, measure them, take bias out of them.", no_args_is_help=True)

VectorsArgument = Annotated[
    Path,
    typer.Argument(
        metavar="VECTORS", help="A directory of `vectors train`, or a file of word2vec (text, binary), GloVe or gensim."
    ),
]
TopOption = Annotated[int, typer.Option("--top", help="How many words to show.", min=1, metavar="N")]
SetsArgument = Annotated[
    list[str],
    typer.Argument(metavar="SETS…", help="Files of analogies (four words a line) or of word pairs with a number."),
]


@app.command()
def train(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILES…", help="Texts: .txt, .csv, .tsv, .jsonl, .parquet; also .gz and .xz; or -."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The directory to write.", metavar="DIR")],
    algorithm: Annotated[
        str | None,
        typer.Option("--algorithm", help="skipgram, cbow, glove or bernoulli.", show_default="skipgram"),
    ] = None,
    dim: Annotated[
        int | None, typer.Option("--dim", help="Numbers of a vector.", min=1, metavar="N", show_default="100")
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option("--epochs", help="Passes over the text.", min=1, metavar="N", show_default="5; glove 25"),
    ] = None,
    window: Annotated[
        int | None,
        typer.Option("--window", help="Neighbours on each side.", min=1, metavar="N", show_default="5; glove 10"),
    ] = None,
    min_count: Annotated[
        int | None,
        typer.Option(
            "--min-count", help="Leave out words that occur less often.", min=1, metavar="N", show_default="5"
        ),
    ] = None,
    phrases: Annotated[
        int | None,
        typer.Option(
            "--phrases", help="Rounds of joining words to phrases (new_york).", min=0, metavar="N", show_default="0"
        ),
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option("--learning-rate", help="The first one.", metavar="X", show_default="0.025 skipgram, else 0.05"),
    ] = None,
    keep_case: Annotated[bool, typer.Option("--keep-case", help="Words as written, not in small letters.")] = False,
    spaces: Annotated[bool, typer.Option("--spaces", help="The text is cut into words already, by spaces.")] = False,
    hogwild: Annotated[
        bool,
        typer.Option("--hogwild", help="All threads at once, without locks: quicker, and different in each run."),
    ] = False,
    threads: ThreadsOption = None,
    seed: OptionalSeed = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="A TOML file of settings, such as another run's.", metavar="FILE")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any other setting: section.key=value, for instance training.negative=10."),
    ] = None,
    text_column: TextColumnOption = None,
    encoding: EncodingOption = "utf-8",
    file_format: FormatOption = None,
    no_header: NoHeaderOption = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write into a directory that is not empty.")] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Learn word vectors from FILES; a line or a row is a text, and no window reaches over its end.

    One thread gives the same vectors in every run. --hogwild uses all of them
    at once on the same vectors; that is quicker, and no two runs are equal.

    \b
    Examples:
      bertworks vectors train wiki.txt.xz --hogwild -o vectors
      bertworks vectors train wiki.txt.xz --algorithm glove --dim 50 -o glove
      bertworks vectors train *.txt --phrases 2 --set training.negative=10 -o v
    """
    from bertworks.data.readers import TextFiles
    from bertworks.vectors import train_vectors
    from bertworks.vectors.result import save_result

    options = _config(
        config,
        settings or [],
        {
            "text.min_count": min_count,
            "text.phrases": phrases,
            "text.lowercase": False if keep_case else None,
            "text.split": "spaces" if spaces else None,
            "training.algorithm": algorithm,
            "training.dim": dim,
            "training.epochs": epochs,
            "training.window": window,
            "training.learning_rate": learning_rate,
            "training.seed": seed,
            **_threads(hogwild, threads),
        },
    )
    unfinished = output / UNFINISHED
    shutil.rmtree(unfinished, ignore_errors=True)  # of a run that was killed
    check_new_directory(output, overwrite)
    tell_odd_files(files, quiet=quiet)
    if options.training.hogwild:
        print_note(
            f"note: {options.training.threads} threads without locks: another run will give other vectors", quiet=quiet
        )
    started = time.monotonic()
    reading = {"text_column": text_column, "encoding": encoding, "file_format": file_format, "header": not no_header}
    source = TextFiles(files, **reading)
    try:
        unfinished.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {output}: {error.strerror or error}") from error
    with StageProgress(quiet=quiet) as progress:

        def show(stage: str, share: float | None, detail: str) -> None:
            progress.update(stage, source.share if share is None else share, detail)

        try:
            trained = train_vectors(source.texts(), options, progress=show, folder=unfinished)
        except DataError as error:
            if error.path is None and len(files) == 1:
                raise DataError(str(error), path=files[0]) from error
            raise
        except OSError as error:
            raise OutputError(f"cannot write {unfinished}: {error.strerror or error}; nothing was kept") from error
        except KeyboardInterrupt:
            raise StoppedError("nothing was kept; vectors are learnt in one go") from None
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
            if not any(output.iterdir()):
                output.rmdir()
    seconds = time.monotonic() - started
    save_result(trained, output, files, seconds)
    rate = round(trained.words_per_second)
    if json:
        print_json(
            {
                "output": str(output),
                "algorithm": trained.config.training.algorithm,
                "words": len(trained.vectors),
                "dim": trained.vectors.dim,
                "words_read": trained.words_read,
                "loss": trained.losses[-1],
                "words_per_second": rate,
                "seconds": round(seconds, 3),
            }
        )
        return
    print_result(
        f"{output}: {len(trained.vectors):,} vectors of {trained.vectors.dim} numbers from {trained.words_read:,} words, "
        f"loss {trained.losses[-1]:.4f}, in {duration(seconds)} ({rate:,} words/s)"
    )


@app.command()
def similar(
    vectors: VectorsArgument,
    word: Annotated[str, typer.Argument(metavar="WORD", help="Its neighbours are shown.")],
    top: TopOption = 10,
    json: JsonOption = False,
) -> None:
    """Show the words nearest to WORD, by cosine; with the deviation where the vectors have a posterior.

    \b
    Examples:
      bertworks vectors similar my-vectors tea
      bertworks vectors similar glove.6B.50d.txt stockholm --top 5 --json
    """
    _show(_load(vectors).similar(word, top), json)


@app.command()
def analogy(
    vectors: VectorsArgument,
    first: Annotated[str, typer.Argument(metavar="A", help="A is to B …")],
    second: Annotated[str, typer.Argument(metavar="B")],
    third: Annotated[str, typer.Argument(metavar="C", help="… as C is to what?")],
    top: TopOption = 10,
    json: JsonOption = False,
) -> None:
    """A is to B as C is to what? The words nearest to B − A + C.

    \b
    Examples:
      bertworks vectors analogy glove.6B.50d.txt man woman king
      bertworks vectors analogy my-vectors france paris italy --top 1 --json
    """
    _show(_load(vectors).analogy(first, second, third, top), json)


@app.command()
def evaluate(
    vectors: VectorsArgument,
    sets: SetsArgument,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Measure vectors on analogies and on word similarity; what a file is, it tells itself.

    Questions about words without a vector are not asked; how many were is
    part of the result.

    \b
    Examples:
      bertworks vectors evaluate my-vectors questions-words.txt wordsim353.tsv
      bertworks vectors evaluate glove.6B.50d.txt simlex999.txt --json
    """
    from bertworks.vectors.evaluate import read_set

    questions = [read_set(path) for path in sets]
    scores = _scores(_load(vectors), questions, quiet=quiet)
    for score in scores:
        if not score.asked:
            print_note(
                f"note: no question of {score.name} was asked: none has a vector for each of its words", quiet=quiet
            )
    if json:
        print_json([score.to_dict() for score in scores])
        return
    print_table(
        ["set", "measure", "value", "asked"],
        [[score.name, MEASURES[score.kind], _value(score), f"{score.asked:,} of {score.rows:,}"] for score in scores],
    )
    for score in scores:
        if score.parts:
            print_result(f"\nparts of {score.name}")
            rows = [[name, f"{share:.1%}", f"{score.parts_asked[name]:,}"] for name, share in score.parts.items()]
            print_table(["part", "right", "asked"], rows)


@app.command()
def bias(
    vectors: VectorsArgument,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the debiased vectors, bias.json and report.html.", metavar="DIR"),
    ] = None,
    lists: Annotated[
        Path | None,
        typer.Option(
            "--lists", help="A directory of word lists as Bolukbasi's; else short ones of ours.", metavar="DIR"
        ),
    ] = None,
    examples: Annotated[
        list[str] | None,
        typer.Option("--example", help="A word X of `he is to X as she is to …`; may be repeated.", metavar="WORD"),
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--evaluate", help="A set of `vectors evaluate` to ask before and after.", metavar="FILE"),
    ] = None,
    seed: SeedOption = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write into a directory that is not empty.")] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Measure gender bias, take its direction out, and measure again.

    A direction is found from pairs such as she/he; shown are how far neutral
    words (professions) lean along it, association tests (WEAT) with p-values,
    and what neutralising and equalising change. Other lists measure other
    directions.

    \b
    Examples:
      bertworks vectors bias glove.6B.50d.txt -o fairer
      bertworks vectors bias glove.6B.50d.txt --lists bolukbasi --example programmer
    """
    from bertworks.vectors import bias as measuring
    from bertworks.vectors.evaluate import read_set
    from bertworks.vectors.word_lists import BUILT_IN, read_lists

    words = BUILT_IN if lists is None else read_lists(lists)
    questions = [read_set(path) for path in sets or []]
    if output is not None:
        check_new_directory(output, overwrite)
    given = _load(vectors)
    chosen = examples or list(DEFAULT_EXAMPLES)
    for word in examples or []:
        given.number(word)
    direction = measuring.find_direction(given, words.pairs)
    before = measuring.measure(given, words, direction, examples=chosen, seed=seed)
    changed = measuring.debiased(given, words, direction)
    after = measuring.measure(changed, words, direction, sides=before.projections, examples=chosen, seed=seed)
    scores = list(zip(_scores(given, questions, quiet=quiet), _scores(changed, questions, quiet=quiet), strict=True))
    result = {
        "pairs": direction.pairs,
        "explained": direction.explained,
        "before": before.to_dict(),
        "after": after.to_dict(),
        "scores": [{"before": one.to_dict(), "after": other.to_dict()} for one, other in scores],
    }
    if output is not None:
        from json import dumps

        from bertworks.atomic import write_text
        from bertworks.vectors.bias_page import bias_page

        changed.save(output, "directory")
        write_text(output / "bias.json", dumps(result, indent=2, ensure_ascii=False) + "\n")
        write_text(output / "report.html", bias_page(vectors.name, direction, before, after, scores))
        print_note(f"wrote {output}: the debiased vectors, bias.json and report.html", quiet=quiet)
    if json:
        print_json(result)
        return
    _print_bias(before, after, direction.pairs[0], scores)


@app.command()
def convert(
    source: VectorsArgument,
    destination: Annotated[
        Path,
        typer.Argument(
            metavar="DESTINATION",
            help="Written as its name says: .bin, .txt, .vec (of these also .gz, .xz), .kv, a directory.",
        ),
    ],
    file_format: Annotated[
        str | None,
        typer.Option("--format", help="directory, word2vec, word2vec-binary, glove or gensim, whatever the name says."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write over what is there.")] = False,
    json: JsonOption = False,
) -> None:
    """Read vectors in any format and write them in another.

    \b
    Examples:
      bertworks vectors convert my-vectors vectors.kv        (opens in gensim)
      bertworks vectors convert GoogleNews.bin.gz google     (a directory)
      bertworks vectors convert my-vectors glove.txt --format glove
    """
    from bertworks.vectors.formats import FORMATS

    if file_format is not None:
        choice(file_format, FORMATS, "--format")
    if destination.exists() and not overwrite:
        raise OutputError(f"{destination} exists already; choose another name or add --overwrite")
    read = _load(source)
    read.save(destination, file_format)
    if json:
        print_json({"destination": str(destination), "words": len(read), "dim": read.dim})
        return
    beside = destination.with_name(f"{destination.name}.vectors.npy")  # gensim's large arrays
    files = f"{destination} and {beside.name}" if destination.is_file() and beside.exists() else str(destination)
    print_result(f"wrote {files}: {len(read):,} vectors of {read.dim} numbers")
    if read.deviations is not None and not destination.is_dir():
        print_note("the deviations of the vectors are left out: only a directory has room for them")


UNFINISHED = "vectors.unfinished"  # in the output, while it is being made
MEASURES = {"analogies": "analogies right", "similarity": "Spearman"}
DEFAULT_EXAMPLES = ("programmer", "doctor", "captain", "scientist")


def _threads(hogwild: bool, threads: int | None) -> dict[str, Any]:
    from bertworks.workers import usable_cores

    if hogwild:
        return {"training.hogwild": True, "training.threads": threads or usable_cores()}
    return {"training.threads": threads}


def _config(file: Path | None, settings: Sequence[str], given: dict[str, Any]) -> VectorsConfig:
    """The file, then `--set`, then the options that were given."""
    from bertworks import config
    from bertworks.vectors import VectorsConfig
    from bertworks.vectors.options import check_meaning

    shown = {name: str(value).lower() if isinstance(value, bool) else value for name, value in given.items()}
    options = [f"{name}={value}" for name, value in shown.items() if value is not None]
    found = config.resolve(VectorsConfig, file, [*settings, *options]).settled()
    check_meaning(found.training.algorithm, settings)
    return found


def _load(path: Path) -> WordVectors:
    from bertworks.vectors import WordVectors

    return WordVectors.load(path)


def _show(found: Sequence[Neighbour], json: bool) -> None:
    if json:
        print_json([{key: value for key, value in near._asdict().items() if value is not None} for near in found])
        return
    for near in found:
        deviation = "" if near.deviation is None else f" ± {near.deviation:.3f}"
        print_result(f"  {near.similarity:.3f}{deviation}  {near.word}")


def _scores(vectors: WordVectors, questions: Sequence[Analogies | Similarities], *, quiet: bool) -> list[Score]:
    from bertworks.vectors.evaluate import score

    with StageProgress(quiet=quiet) as progress:

        def ask(one: Analogies | Similarities) -> Score:
            def show(done: int, total: int) -> None:
                progress.update(one.name, done / total, f"{done:,} of {total:,} analogies")

            return score(vectors, one, show)

        return [ask(one) for one in questions]


def _value(score: Score) -> str:
    if score.value is None:
        return "–"
    return f"{score.value:.1%}" if score.kind == "analogies" else f"{score.value:.3f}"


def _print_bias(before: Bias, after: Bias, pair: tuple[str, str], scores: Sequence[tuple[Score, Score]]) -> None:
    one, other = pair
    rows = [["mean projection of neutral words", f"{before.direct:.3f}", f"{after.direct:.3f}"]]
    if before.stereotype is not None:
        now = "–" if after.stereotype is None else f"{after.stereotype:.2f}"
        rows.append(["correlation with what people say", f"{before.stereotype:.2f}", now])
    rows.append(["side told by a word's neighbours", f"{before.clustering:.0%}", f"{after.clustering:.0%}"])
    rows += [
        [f"WEAT: {test.title}", *(f"{t.effect:+.2f} (p {t.p_value:.2g})" for t in (test, changed))]
        for test, changed in zip(before.tests, after.tests, strict=True)
    ]
    rows += [[f"{first.name}", _value(first), _value(second)] for first, second in scores]
    print_table(["measure", "before", "after"], rows)
    words = list(before.projections.items())
    print_result("")
    for side, ordered, sign in ((other, words, -1), (one, words[::-1], 1)):
        leaning = [word for word, projection in ordered if sign * projection >= LEANS][:SHOWN_LEANING]
        print_result(f"leaning to {side}: {', '.join(leaning) or 'none of the neutral words'}")
    for word, found in before.partners.items():
        changed = after.partners[word]
        print_result(
            f"{other} : {word} = {one} : {', '.join(f'{near.word} ({near.similarity:.2f})' for near in found[:3])}; "
            f"after at most {changed[0].similarity:.2f}"
        )
