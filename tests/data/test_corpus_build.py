"""Building a corpus: what a document is, the same bytes however it is built, stops and restarts, and bad input."""

from __future__ import annotations

import contextlib
import errno
import gzip
import json
import lzma
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.data.corpus import Corpus, CorpusOptions, LocalEngine, build_corpus
from bertworks.data.corpus import build as build_module
from bertworks.data.corpus import documents as documents_module
from bertworks.data.corpus.documents import Block, Place, check_inputs, read_blocks
from bertworks.data.corpus.encode import Encoder
from bertworks.data.corpus.layout import MAX_SENTENCE_TOKENS
from bertworks.data.unfinished import JOURNAL, STATE
from bertworks.errors import BertworksError, DataError, OutputError, TokenizerError, UsageError
from tests.data.corpus_helpers import DOCUMENTS, contents, many, tokenizer_directory, write_documents


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tokenizer_directory(tmp_path_factory.mktemp("tokenizers") / "bert")


def build(paths: list[Path], tokenizer: Path, output: Path, **options: Any) -> Corpus:
    """Build in this process and open the result."""
    arguments = {name: options.pop(name) for name in ("restart", "engine", "progress") if name in options}
    arguments.setdefault("engine", LocalEngine(1))
    build_corpus(paths, tokenizer, output, CorpusOptions(**options), **arguments)
    return Corpus.open(output)


def texts(corpus: Corpus) -> list[str]:
    tokenizer = corpus.tokenizer()
    return [tokenizer.decode(ids) for ids in corpus]


def blocks_of(path: Path, **options: Any) -> list[tuple[str, int]]:
    blocks = list(read_blocks([str(path)], CorpusOptions(**options)))
    return [(text, units) for block in blocks for text, units in zip(block.texts, block.units, strict=True)]


# --- documents --------------------------------------------------------------------------------------------------------


def test_documents_between_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes("\ufeff\n\n  One \nTwo\r\n \t\n\n\u3000\nThree\n\n".encode())
    assert blocks_of(path) == [("One\nTwo", 5), ("Three", 9)]
    assert blocks_of(path, document="file") == [("One\nTwo\nThree", 9)]
    rows = blocks_of(path, document="row")
    assert [text for text, _ in rows] == ["", "", "One", "Two", "", "", "", "Three", ""]
    assert [units for _, units in rows] == list(range(1, 10))


def test_documents_from_tables(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 1, "body": "One\\ntwo."}\n\n{"id": 2, "body": "Three."}\n')
    (tmp_path / "b.csv").write_text('name,text\nx,"One\ntwo."\ny,Three.\n')
    pq.write_table(pyarrow.table({"text": ["One\ntwo.", "Three."]}), tmp_path / "c.parquet")
    expected = [("One\ntwo.", 1), ("Three.", 2)]
    assert blocks_of(tmp_path / "a.jsonl") == expected
    assert blocks_of(tmp_path / "a.jsonl", text_column="body", document="row") == expected
    assert blocks_of(tmp_path / "b.csv") == blocks_of(tmp_path / "c.parquet") == expected


def test_compressed_files_give_the_same_corpus(tmp_path: Path, tokenizer: Path) -> None:
    plain = write_documents(tmp_path / "t.txt", DOCUMENTS)
    (tmp_path / "t.txt.gz").write_bytes(gzip.compress(plain.read_bytes()))
    (tmp_path / "t.txt.xz").write_bytes(lzma.compress(plain.read_bytes()))
    shards = []
    for name in ("t.txt", "t.txt.gz", "t.txt.xz"):
        build([tmp_path / name], tokenizer, tmp_path / f"{name}-corpus")
        shards.append((tmp_path / f"{name}-corpus" / "shard-00000.bin").read_bytes())
    assert shards[0] == shards[1] == shards[2]


def test_documents_that_never_end_are_cut(tmp_path: Path, tokenizer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents_module, "MAX_DOCUMENT_CHARACTERS", 40)
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(["The old mill runs."] * 7))
    corpus = build([path], tokenizer, tmp_path / "corpus")
    assert corpus.num_documents == 3
    assert corpus.manifest["totals"]["cut_documents"] == 2
    assert [len(corpus.sentences(index)) for index in range(3)] == [3, 3, 1]


def test_any_place_can_be_continued_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents_module, "MAX_DOCUMENT_CHARACTERS", 90)
    monkeypatch.setattr(documents_module, "BLOCK_CHARACTERS", 150)
    write_documents(tmp_path / "a.txt", many(7))
    (tmp_path / "b.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in many(5)))
    paths = [str(tmp_path / "a.txt"), str(tmp_path / "b.jsonl")]

    def documents(start: Place) -> list[tuple[str, int, int, bool]]:
        found = read_blocks(paths, CorpusOptions(), start)
        return [row for b in found for row in zip(b.texts, b.files, b.units, b.cut, strict=True)]

    every = documents(Place())
    assert len(every) > 12
    for number, (_, file, units, _) in enumerate(every):
        assert documents(Place(file, units)) == every[number + 1 :]


def test_what_a_document_can_be(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text\nOne\n")
    (tmp_path / "b.json").write_text("{}")
    (tmp_path / "c.txt").write_text("One\n")
    with pytest.raises(UsageError, match=r"a.csv is a table, whose documents are its rows"):
        blocks_of(tmp_path / "a.csv", document="file")
    with pytest.raises(DataError, match=r"a .json file is not a table"):
        blocks_of(tmp_path / "b.json")
    with pytest.raises(DataError, match="unknown format 'xml'"):
        blocks_of(tmp_path / "c.txt", file_format="xml")
    with pytest.raises(UsageError, match=r"c.txt is a text file and has no columns; leave out --text-column"):
        check_inputs([str(tmp_path / "c.txt")], CorpusOptions(text_column="body"))
    check_inputs([str(tmp_path / "c.txt"), str(tmp_path / "a.csv")], CorpusOptions(text_column="body"))
    with pytest.raises(UsageError, match="unknown document 'page'; allowed: blank-line, line, row, file"):
        CorpusOptions(document="page")
    assert CorpusOptions(document="line") == CorpusOptions(document="row")
    with pytest.raises(UsageError, match="shard_tokens must be from 1"):
        CorpusOptions(shard_tokens=0)


# --- encoding ---------------------------------------------------------------------------------------------------------


class Characters:
    """A stand-in for a tokenizer: one token per character that is not a space or a full stop."""

    vocab_size = 1000
    unk_id = None

    def ids(self, pieces: list[str]) -> tuple[np.ndarray, np.ndarray]:
        kept = [[ord(c) for c in piece if not c.isspace() and c != "."] for piece in pieces]
        return np.array(list(chain.from_iterable(kept)), np.int32), np.array(list(map(len, kept)), np.int64)


def encoder(monkeypatch: pytest.MonkeyPatch) -> Encoder:
    monkeypatch.setattr("bertworks.data.corpus.encode.Tokenizer", Characters)
    return Encoder(Characters(), CorpusOptions(drop_duplicates=True))  # type: ignore[arg-type]


def test_a_block_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    block = Block(["Ab cd. E.", "...", "é"], [0, 0, 1], [2, 4, 1], [False, True, False], 9)
    encoded = encoder(monkeypatch).encode(block)
    assert encoded.ids.tolist() == [ord(c) for c in "AbcdEé"]
    assert encoded.sentence_lengths.tolist() == [4, 1, 1]
    assert encoded.num_sentences.tolist() == [2, 0, 1]
    assert encoded.num_tokens.tolist() == [5, 0, 1]
    assert encoded.num_bytes.tolist() == [9, 3, 2]
    assert len(encoded.digests) == 3 * 16


def test_a_sentence_that_two_bytes_cannot_count_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    long = "x" * (2 * MAX_SENTENCE_TOKENS + 3)
    encoded = encoder(monkeypatch).encode(
        Block(["a", f"b. {long}. C", long[:MAX_SENTENCE_TOKENS]], [0] * 3, [1, 2, 3], [False] * 3)
    )
    full = MAX_SENTENCE_TOKENS
    assert encoded.sentence_lengths.tolist() == [1, full, full, 4, 1, full]  # "b. x": a small letter goes on
    assert encoded.num_sentences.tolist() == [1, 4, 1]
    assert encoded.num_tokens.sum() == len(encoded.ids)


# --- the same bytes ---------------------------------------------------------------------------------------------------


def test_the_number_of_workers_changes_nothing(
    tmp_path: Path, tokenizer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents_module, "BLOCK_CHARACTERS", 700)
    files = [write_documents(tmp_path / f"{n}.txt", many(20 + n)) for n in range(3)]
    one = build(files, tokenizer, tmp_path / "one", shard_tokens=500)
    build(files, tokenizer, tmp_path / "two", shard_tokens=500, engine=LocalEngine(2))
    assert len(one.manifest["shards"]) > 3
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=30), st.integers(1, 90), st.integers(1, 400), st.booleans())
def test_shards_do_not_depend_on_blocks(
    tokenizer: Path,
    tmp_path_factory: pytest.TempPathFactory,
    numbers: list[int],
    shard_tokens: int,
    size: int,
    drop: bool,
) -> None:
    """Any cutting into blocks gives the same shards; duplicates are the second and later ones."""
    folder = tmp_path_factory.mktemp("property")
    documents = [f"Mill {'river ' * number}." for number in numbers]
    path = write_documents(folder / "t.txt", documents)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents_module, "BLOCK_CHARACTERS", size)
        corpus = build([path], tokenizer, folder / "a", shard_tokens=shard_tokens, drop_duplicates=drop)
    build([path], tokenizer, folder / "b", shard_tokens=shard_tokens, drop_duplicates=drop)
    assert contents(folder / "a") == contents(folder / "b")
    kept = list(dict.fromkeys(documents)) if drop else documents
    found, _ = zip(*(corpus.tokenizer().ids([text]) for text in kept), strict=True)
    assert [ids.tolist() for ids in corpus] == [ids.tolist() for ids in found]
    assert corpus.manifest["totals"]["duplicates"] == len(documents) - len(kept)
    for shard in corpus.manifest["shards"][:-1]:
        assert shard["tokens"] >= shard_tokens


def test_documents_without_tokens_are_counted_and_left_out(tmp_path: Path, tokenizer: Path) -> None:
    (tmp_path / "t.jsonl").write_text('"The mill."\n""\n"\\u0001"\n"The river."\n')
    corpus = build([tmp_path / "t.jsonl"], tokenizer, tmp_path / "corpus")
    assert texts(corpus) == ["the mill.", "the river."]
    assert corpus.manifest["totals"]["empty_documents"] == 2


# --- stops ------------------------------------------------------------------------------------------------------------


class StoppingEngine(LocalEngine):
    """Raises after some blocks."""

    def __init__(self, after: int, error: BaseException) -> None:
        super().__init__(1)
        self.after, self.error = after, error

    def encode(self, *arguments: Any) -> Iterator[Any]:  # type: ignore[override]
        for number, block in enumerate(super().encode(*arguments)):
            if number == self.after:
                raise self.error
            yield block


@pytest.mark.parametrize("drop_duplicates", [False, True])
def test_a_stop_after_any_block_changes_nothing(
    tmp_path: Path, tokenizer: Path, monkeypatch: pytest.MonkeyPatch, drop_duplicates: bool
) -> None:
    monkeypatch.setattr(documents_module, "BLOCK_CHARACTERS", 200)
    files = [write_documents(tmp_path / f"{n}.txt", many(9)) for n in range(2)]  # the second has only duplicates
    options = {"shard_tokens": 60, "drop_duplicates": drop_duplicates}
    whole = build(files, tokenizer, tmp_path / "whole", **options)
    for after in range(6):
        output = tmp_path / f"stopped-{after}"
        with pytest.raises(KeyboardInterrupt, match=r"kept"):
            build(files, tokenizer, output, engine=StoppingEngine(after, KeyboardInterrupt()), **options)
        assert not output.exists()
        seen = []
        build(files, tokenizer, output, progress=seen.append, **options)
        assert contents(output) == contents(whole.directory)
        if after > 3:
            assert seen[0].resumed.tokens >= 60
        assert not output.with_name(output.name + ".part").exists()


def test_a_stop_while_a_shard_or_the_manifest_is_written(
    tmp_path: Path, tokenizer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk at every write of the build, one after the other; then room again."""
    file = write_documents(tmp_path / "t.txt", many(12))
    options = {"shard_tokens": 150, "drop_duplicates": True}
    whole = contents(build([file], tokenizer, tmp_path / "whole", **options).directory)
    real = os.fsync
    calls = 0

    def count(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        real(descriptor)

    monkeypatch.setattr(os, "fsync", count)
    build([file], tokenizer, tmp_path / "counted", **options)
    assert calls > 10
    for failing in range(calls):
        output = tmp_path / f"full-{failing}"
        done = 0

        def fail(descriptor: int, failing: int = failing) -> None:
            nonlocal done
            done += 1
            if done == failing + 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            real(descriptor)

        monkeypatch.setattr(os, "fsync", fail)
        with contextlib.suppress(OutputError):  # where the failing sync is one that may fail, the build goes through
            build([file], tokenizer, output, **options)
            failing = -1
        assert output.exists() == (failing == -1)
        monkeypatch.setattr(os, "fsync", real)
        build([file], tokenizer, output, **options)
        assert contents(output) == whole
    assert not list(tmp_path.glob("*.part"))


KILLED = """
import os, signal, sys
from bertworks.data.corpus import CorpusOptions, LocalEngine, build_corpus
from bertworks.data.corpus import documents

if __name__ == "__main__":
    documents.BLOCK_CHARACTERS = 600
    blocks = 0
    def progress(report):
        global blocks
        blocks += 1
        if blocks == 12:
            print("ready", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
    build_corpus([sys.argv[1]], sys.argv[2], sys.argv[3], CorpusOptions(shard_tokens=400),
                 engine=LocalEngine(2), progress=progress)
"""


def test_kill_9_and_again(tmp_path: Path, tokenizer: Path) -> None:
    file = write_documents(tmp_path / "t.txt", many(120))
    (tmp_path / "killed.py").write_text(KILLED)
    output = tmp_path / "corpus"
    command = [sys.executable, str(tmp_path / "killed.py"), str(file), str(tokenizer), str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not output.exists()
    part = contents(tmp_path / "corpus.part")
    assert len([name for name in part if name.endswith(".bin")]) >= 2
    build([file], tokenizer, output, shard_tokens=400)
    assert contents(output) == contents(build([file], tokenizer, tmp_path / "whole", shard_tokens=400).directory)
    deadline = time.monotonic() + 30  # the killed build's workers must not live on
    while (left := _processes_with(str(tmp_path))) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left


def _processes_with(text: str) -> list[str]:
    """The command lines that contain `text`, where the system tells; ours is not among them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            command = (path.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            directory = str((path.parent / "cwd").readlink())
        except OSError:
            continue
        if path.parent.name != str(os.getpid()) and (text in command or text in directory):
            found.append(command)
    return found


def test_a_stop_after_the_rename_leaves_nothing_behind(
    tmp_path: Path, tokenizer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_documents(tmp_path / "t.txt", many(9))
    options = {"shard_tokens": 60, "drop_duplicates": True}
    whole = contents(build([file], tokenizer, tmp_path / "whole", **options).directory)
    with monkeypatch.context() as patch:
        patch.setattr(build_module, "_tidy", lambda final: None)  # killed before it
        build([file], tokenizer, tmp_path / "corpus", shard_tokens=70)
        build([file], tokenizer, tmp_path / "corpus", restart=True, **options)
    assert contents(tmp_path / "corpus").keys() > whole.keys()
    build([file], tokenizer, tmp_path / "corpus", **options)
    assert contents(tmp_path / "corpus") == whole
    assert not (tmp_path / "corpus" / "replaced").exists()


def test_two_builds_at_once(tmp_path: Path, tokenizer: Path) -> None:
    file = write_documents(tmp_path / "t.txt", many(3))

    def second(_: Any) -> None:
        with pytest.raises(OutputError, match="another run is writing"):
            build([file], tokenizer, tmp_path / "corpus")

    build([file], tokenizer, tmp_path / "corpus", progress=second)


def test_changes_are_noticed(tmp_path: Path, tokenizer: Path) -> None:
    file = write_documents(tmp_path / "t.txt", many(9))
    other = tokenizer_directory(tmp_path / "other", "gpt2")
    options = {"shard_tokens": 60}

    def refused(message: str, with_tokenizer: Path = tokenizer, **changed: Any) -> None:
        with pytest.raises(OutputError, match=message):
            build([file], with_tokenizer, tmp_path / "corpus", **{**options, **changed})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents_module, "BLOCK_CHARACTERS", 100)
        with pytest.raises(KeyboardInterrupt):
            build([file], tokenizer, tmp_path / "corpus", engine=StoppingEngine(3, KeyboardInterrupt()), **options)
    for state in ("unfinished run", "holds a corpus"):
        refused(rf"{state} that differs .*tokenizer.json: sha256 \w+ there, sha256 \w+ now", other)
        refused(rf"{state} that differs from this one \(shard tokens: 60 there, 61 now\)", shard_tokens=61)
        refused(rf"{state} that differs .*drop duplicates: false there, true now", drop_duplicates=True)
        content = file.read_text()
        file.write_text(content.replace("Number 3", "Number 4"))  # as long as before
        refused(
            rf"{state} that differs .*input 1: t.txt \(\d+ bytes, sha256 \w+\) there, t.txt .* now\).*--(restart|overwrite)"
        )
        file.write_text(content)
        build([file], tokenizer, tmp_path / "corpus", **options)
    (tmp_path / "corpus.old").mkdir()
    new = build([file], other, tmp_path / "corpus", restart=True)
    assert new.vocab_size == 400
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["corpus", "corpus.old", "other", "t.txt"], "what the user calls .old is the user's"


def test_a_finished_corpus_is_left_alone(tmp_path: Path, tokenizer: Path) -> None:
    file = write_documents(tmp_path / "t.txt", many(3))
    build([file], tokenizer, tmp_path / "corpus")
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "corpus").iterdir()}
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    file = file.replace(moved / "t.txt")  # the same file at another place is the same input
    report = build_corpus([file], tokenizer, tmp_path / "corpus", engine=LocalEngine(1))
    assert report.already_there
    assert report.totals.documents == 3
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "corpus").iterdir()} == times


def test_what_is_not_ours_is_not_touched(tmp_path: Path, tokenizer: Path) -> None:
    file = write_documents(tmp_path / "t.txt", many(3))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    (tmp_path / "yours.part").mkdir()
    (tmp_path / "yours.part" / "thesis.tex").write_text("years of work")
    for restart in (False, True):
        for output, message in (
            (tmp_path / "mine", "something that is not a corpus is there"),
            (file, "something that is not a corpus is there"),
            (tmp_path / "yours", "is in the way and is not an unfinished run"),
            (tmp_path / "no" / "where", "there is no directory"),
        ):
            with pytest.raises(OutputError, match=message):
                build([file], tokenizer, output, restart=restart)
    assert (tmp_path / "mine" / "thesis.tex").exists()
    assert (tmp_path / "yours.part" / "thesis.tex").exists()
    (tmp_path / "empty").mkdir()
    assert build([file], tokenizer, tmp_path / "empty").num_documents == 3


def test_a_damaged_state_and_a_lost_shard(tmp_path: Path, tokenizer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents_module, "BLOCK_CHARACTERS", 100)
    file = write_documents(tmp_path / "t.txt", many(9))
    part = tmp_path / "corpus.part"

    def stop() -> None:
        engine = StoppingEngine(3, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            build([file], tokenizer, tmp_path / "corpus", engine=engine, shard_tokens=60, restart=True)

    stop()
    (part / "shard-00001.bin").write_bytes(b"cut")
    with (part / JOURNAL).open("ab") as journal:
        journal.write(b'{"file": "shard-0')
    whole = contents(build([file], tokenizer, tmp_path / "whole", shard_tokens=60).directory)
    assert contents(build([file], tokenizer, tmp_path / "corpus", shard_tokens=60).directory) == whole
    shutil.rmtree(tmp_path / "corpus")
    stop()
    (part / STATE).write_text("{")
    with pytest.raises(OutputError, match=r"whose state.json is damaged; use --restart"):
        build([file], tokenizer, tmp_path / "corpus", shard_tokens=60)


# --- bad input --------------------------------------------------------------------------------------------------------


def nothing_left(directory: Path, *known: str) -> bool:
    return {path.name for path in directory.iterdir()} == set(known)


def test_bad_files(tmp_path: Path, tokenizer: Path) -> None:
    good = write_documents(tmp_path / "good.txt", DOCUMENTS)
    compressed = lzma.compress(b"The mill.\n" * 5000)
    cases: dict[str, tuple[bytes, str]] = {
        "empty.txt": (b"", "there is no text in .*empty.txt"),
        "blank.txt": (b"\n \n\n", "there is no text in .*blank.txt"),
        "binary.txt": (
            b"The mill.\n\n\x7fELF\0\1",
            r"binary.txt:3: has a NUL byte at column 5: this is not a text file",
        ),
        "latin.txt": ("One.\nÅ\n".encode("latin-1"), r"latin.txt:2: is not valid utf-8 \(0xc5 at byte 1 of the line\)"),
        "cut.txt.xz": (
            compressed[: len(compressed) // 2],
            r"cut.txt.xz:\d+: the compressed file is damaged or cut off",
        ),
        "no.txt.gz": (b"plain text", r"no.txt.gz: is not gz-compressed at all: it begins with b'pl'"),
        "bad.jsonl": (b'{"text": "One."}\n{"text": 2}\n', r"bad.jsonl:2: the column 'text' holds 2, not a text"),
        "bad.parquet": (b"PAR1", r"bad.parquet"),
    }
    for name, (content, message) in cases.items():
        (tmp_path / name).write_bytes(content)
        for workers in (1, 2) if name == "latin.txt" else (1,):
            with pytest.raises(DataError, match=message):
                build([tmp_path / name], tokenizer, tmp_path / "corpus", engine=LocalEngine(workers))
    for path, message in ((tmp_path / "none.txt", "none.txt: no such file"), (tmp_path, "is a directory; give a file")):
        with pytest.raises(DataError, match=message):
            build([good, path], tokenizer, tmp_path / "corpus")
    assert nothing_left(tmp_path, "good.txt", *cases)


def test_bad_arguments(tmp_path: Path, tokenizer: Path) -> None:
    good = write_documents(tmp_path / "good.txt", DOCUMENTS)
    with pytest.raises(TokenizerError, match=r"no such directory; give a model directory that holds a tokenizer.json"):
        build([good], tmp_path / "none", tmp_path / "corpus")
    with pytest.raises(TokenizerError, match="found no tokenizer"):
        build([good], tmp_path, tmp_path / "corpus")
    with pytest.raises(UsageError, match="no input files"):
        build([], tokenizer, tmp_path / "corpus")
    with pytest.raises(UsageError, match="cannot be mixed"):
        build([Path("-"), good], tokenizer, tmp_path / "corpus")
    with pytest.raises(UsageError, match="workers must be at least 1, not 0"):
        LocalEngine(0)
    assert nothing_left(tmp_path, "good.txt")


def test_an_error_keeps_whole_shards_and_no_more(
    tmp_path: Path, tokenizer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents_module, "BLOCK_CHARACTERS", 100)
    good = write_documents(tmp_path / "good.txt", many(9))
    (tmp_path / "bad.txt").write_bytes(b"\xff")
    with pytest.raises(BertworksError, match=r"bad.txt:1"):
        build([good, tmp_path / "bad.txt"], tokenizer, tmp_path / "corpus", shard_tokens=60)
    assert nothing_left(tmp_path, "good.txt", "bad.txt", "corpus.part")
    assert not list((tmp_path / "corpus.part").glob("*.tmp"))
    assert not (tmp_path / "corpus.part" / "manifest.json").exists()


# --- real text --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "language", "per_sentence"),
    [("wiki-en-00", "en", 27), ("novels-sv-00", "sv", 40), ("wiki-zh-00", "zh", 50)],
)
def test_real_text(
    shared_data: Path, minilm_directory: Path, tmp_path: Path, name: str, language: str, per_sentence: int
) -> None:
    """A slice of each language: all tokens of the text, at most 2.2 bytes each, sentences of a likely length."""
    with lzma.open(shared_data / "corpus" / f"{name}.txt.xz", "rt", encoding="utf-8") as lines:
        text = lines.read(400_000)
    (tmp_path / "slice.txt").write_text(text, encoding="utf-8")
    corpus = build([tmp_path / "slice.txt"], minilm_directory, tmp_path / "corpus")
    assert corpus.num_bytes / corpus.num_tokens <= 2.2
    tokenizer = corpus.tokenizer()
    documents = [" ".join(part.split()) for part in "\n".join(map(str.rstrip, text.split("\n"))).split("\n\n")]
    expected, _ = tokenizer.ids([document for document in documents if document])
    np.testing.assert_array_equal(np.concatenate(list(corpus)), expected)
    forced = build([tmp_path / "slice.txt"], minilm_directory, tmp_path / "forced", language=language)
    assert abs(forced.num_sentences - corpus.num_sentences) <= 0.01 * corpus.num_sentences
    assert 0.5 < corpus.num_tokens / corpus.num_sentences / per_sentence < 2
