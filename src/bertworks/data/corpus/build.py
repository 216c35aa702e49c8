"""Building a corpus: check, continue or begin, encode, write, finish.

Where the work is done is an `Engine`'s business: `LocalEngine` uses the cores of this machine, `bertworks.ray` those of
a cluster. Everything else is here and is the same for both, so the shards are the same bytes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import bertworks
from bertworks.atomic import TEMPORARY_SUFFIX, sync_directory, write_bytes, write_text
from bertworks.data.corpus.documents import Place, check_inputs
from bertworks.data.corpus.encode import EncodedBlock, encode_files
from bertworks.data.corpus.layout import FORMAT, MANIFEST, TOKENIZER_FOLDER, VERSION, file_sha256, token_type
from bertworks.data.corpus.options import CorpusOptions
from bertworks.data.corpus.writer import DIGESTS_SUFFIX, ShardWriter, Totals
from bertworks.data.source import STANDARD_INPUT, Source
from bertworks.data.unfinished import JOURNAL, STATE, Unfinished, difference
from bertworks.errors import DataError, OutputError, UsageError, first_few
from bertworks.text.tokenizer import Tokenizer
from bertworks.workers import checked_workers

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "added_tokens.json",
)
DECIDING_FILES = ("tokenizer.json", "tokenizer_config.json")  # those that can change an id
REPLACED_FOLDER = "replaced"  # where an older corpus waits for its removal


@dataclass(frozen=True)
class InputFacts:
    """What tells whether an input is still the same; size and hash are None for standard input."""

    name: str
    size: int | None
    sha256: str | None


@dataclass(frozen=True)
class Report:
    """How far a build is, or how it ended; counts are those of the corpus, earlier runs included."""

    directory: Path
    totals: Totals
    bytes_read: int | None  # of the inputs as stored
    bytes_total: int | None
    resumed: Totals = field(default_factory=Totals)  # what earlier runs had done
    already_there: bool = False  # a finished corpus with the same settings was found, and nothing was done


class Engine(Protocol):
    """Where the work is done."""

    def facts(self, paths: Sequence[str]) -> list[InputFacts]:
        """Look at the inputs; a `DataError` for one that cannot be read."""

    def encode(
        self, paths: Sequence[str], tokenizer: Path, options: CorpusOptions, start: Place
    ) -> Generator[EncodedBlock]:
        """All documents from `start` on, encoded, in order."""


class LocalEngine:
    """The cores of this machine. `workers` is the number of processes; None means one per usable core."""

    def __init__(self, workers: int | None = None) -> None:
        self.workers = checked_workers(workers)

    def facts(self, paths: Sequence[str]) -> list[InputFacts]:
        """Hash the inputs, several at a time."""
        with ThreadPoolExecutor(self.workers) as pool:
            return list(pool.map(input_facts, paths))

    def encode(
        self, paths: Sequence[str], tokenizer: Path, options: CorpusOptions, start: Place
    ) -> Generator[EncodedBlock]:
        """Encode in `workers` processes, or in this one if it is one."""
        return encode_files(paths, tokenizer, options, start, self.workers)


def build_corpus(
    paths: Sequence[str | Path],
    tokenizer: str | Path,
    output: str | Path,
    options: CorpusOptions | None = None,
    *,
    engine: Engine | None = None,
    restart: bool = False,
    progress: Callable[[Report], None] | None = None,
) -> Report:
    """Build a corpus at `output` from files (or `-`), continuing an earlier build with the same settings.

    tokenizer: a directory with the tokenizer's files
    restart: drop what an earlier build has left at `output`
    progress: is told after every block
    """
    names, final, options = [str(path) for path in paths], Path(output), options or CorpusOptions()
    engine = engine or LocalEngine()
    if not names:
        raise UsageError("there are no input files")
    if names.count(STANDARD_INPUT) and len(names) > 1:
        raise UsageError("standard input (-) cannot be mixed with files")
    check_inputs(names, options)
    files, vocab_size = read_tokenizer(Path(tokenizer))
    inputs = engine.facts(names)
    settings = settings_of(files, inputs, options)
    sizes = [facts.size for facts in inputs]
    known = sum(size for size in sizes if size is not None) if None not in sizes else None
    found = _finished(final)
    if found is not None and not restart:
        problem = difference(found["settings"], settings)
        if not problem and known is None:
            problem = "that was made from standard input, and whether this is the same text cannot be told"
        if problem:
            raise OutputError(
                f"{final} holds a corpus {problem}; use --overwrite to replace it, or choose another name"
            )
        _tidy(final)
        return Report(final, Totals(**found["totals"]), known, known, already_there=True)
    unfinished = Unfinished(final, settings, unit="shard", restart=restart, resumable=known is not None)
    try:
        folder = unfinished.path / TOKENIZER_FOLDER
        with unfinished.explained():
            folder.mkdir(exist_ok=True)
            for name, content in files.items():
                write_bytes(folder / name, content)
        writer = ShardWriter(unfinished, shard_tokens=options.shard_tokens, drop_duplicates=options.drop_duplicates)
        resumed = dataclasses.replace(writer.totals)

        def report(bytes_read: int | None) -> Report:
            return Report(final, dataclasses.replace(writer.totals), bytes_read, known, resumed)

        if writer.place is not None:
            with contextlib.closing(engine.encode(names, folder, options, writer.place)) as blocks:
                for block in blocks:
                    writer.add(block)
                    if progress is not None:
                        progress(report(_position(block, sizes)))
            if not writer.totals.tokens:
                raise DataError(f"there is no text in {first_few(names, 3)}; an empty corpus is of no use")
            writer.finish()
        _finish(unfinished, _manifest(files, vocab_size, inputs, options, settings, unfinished, writer.totals))
        return report(known)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(unfinished.kept()) from None
    finally:
        unfinished.close()


def input_facts(path: str) -> InputFacts:
    """Name, size and SHA-256 of an input."""
    source = Source(path)
    try:
        if source.path is None or not source.repeatable:
            return InputFacts(source.name, None, None)
        return InputFacts(source.path.name, source.total_bytes, file_sha256(source.path))
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path=path) from error
    finally:
        source.close()


def read_tokenizer(directory: Path) -> tuple[dict[str, bytes], int]:
    """The files of a tokenizer (always with a tokenizer.json, made where there is none) and its vocabulary's size."""
    tokenizer = Tokenizer.from_directory(directory)
    if (directory / "tokenizer.json").is_file():
        return _read_files(directory), tokenizer.vocab_size
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(folder)
        return _read_files(Path(folder)), tokenizer.vocab_size


def _read_files(directory: Path) -> dict[str, bytes]:
    return {name: (directory / name).read_bytes() for name in TOKENIZER_FILES if (directory / name).is_file()}


def settings_of(files: Mapping[str, bytes], inputs: Sequence[InputFacts], options: CorpusOptions) -> dict[str, Any]:
    """Everything that decides the shards, short enough to be shown in an error."""
    settings: dict[str, Any] = {"format version": VERSION}
    for name in DECIDING_FILES:
        settings[name] = "sha256 " + _sha256(files[name])[:16] if name in files else None
    settings |= {name.replace("_", " "): value for name, value in dataclasses.asdict(options).items()}
    for number, facts in enumerate(inputs, start=1):
        size = "unknown size" if facts.size is None else f"{facts.size} bytes"
        settings[f"input {number}"] = f"{facts.name} ({size}, sha256 {(facts.sha256 or 'unknown')[:16]})"
    return settings


def _manifest(
    files: Mapping[str, bytes],
    vocab_size: int,
    inputs: Sequence[InputFacts],
    options: CorpusOptions,
    settings: Mapping[str, Any],
    unfinished: Unfinished,
    totals: Totals,
) -> dict[str, Any]:
    names = ("file", "documents", "sentences", "tokens", "bytes", "sha256")
    return {
        "format": FORMAT,
        "version": VERSION,
        "made_by": f"bertworks {bertworks.__version__}",
        "token_bytes": token_type(vocab_size).itemsize,
        "tokenizer": {
            "sha256": _sha256(files["tokenizer.json"]),
            "vocab_size": vocab_size,
            "files": {name: _sha256(content) for name, content in files.items()},
        },
        "inputs": [dataclasses.asdict(facts) for facts in inputs],
        "options": dataclasses.asdict(options),
        "totals": dataclasses.asdict(totals),
        "shards": [{name: entry[name] for name in names} for entry in unfinished.entries],
        "settings": dict(settings),
    }


def _finish(unfinished: Unfinished, manifest: Mapping[str, Any]) -> None:
    """Write the manifest and give the directory its final name; an older corpus there makes room."""
    final = unfinished.final
    with unfinished.explained():
        write_text(unfinished.path / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
        if final.exists():
            shutil.rmtree(unfinished.path / REPLACED_FOLDER, ignore_errors=True)
            final.replace(unfinished.path / REPLACED_FOLDER)
        unfinished.path.replace(final)
        sync_directory(final.parent)
    _tidy(final)


def _tidy(final: Path) -> None:
    """Remove what only the building needed; a build that was killed here leaves it to the next one."""
    shutil.rmtree(final / REPLACED_FOLDER, ignore_errors=True)
    leftovers = [final / STATE, final / JOURNAL]
    leftovers += [path for suffix in (DIGESTS_SUFFIX, TEMPORARY_SUFFIX) for path in final.glob(f"*{suffix}")]
    for path in leftovers:
        with contextlib.suppress(OSError):  # the corpus is whole; a leftover is no reason to fail
            path.unlink()


def _finished(final: Path) -> dict[str, Any] | None:
    """The manifest of the corpus that is at `final`, or None where there is nothing; never anything else's place."""
    if not final.exists() or (final.is_dir() and not any(final.iterdir())):
        return None
    try:
        manifest = json.loads((final / MANIFEST).read_text(encoding="utf-8"))
        if manifest["format"] == FORMAT:
            return {"settings": manifest["settings"], "totals": manifest["totals"]}
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise OutputError(f"cannot write {final}: something that is not a corpus is there; choose another name")


def _position(block: EncodedBlock, sizes: Sequence[int | None]) -> int | None:
    """How far the inputs have been read after this block, in bytes as stored."""
    if block.bytes_read is None or None in sizes:
        return None
    return sum(size or 0 for size in sizes[: int(block.files[-1])]) + block.bytes_read


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
