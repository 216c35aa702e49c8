"""The corpus build on a local Ray cluster of two workers: the same bytes as a build without Ray, and the same errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bertworks.data.corpus import Corpus, CorpusOptions, LocalEngine, build_corpus
from bertworks.data.corpus import documents as documents_module
from bertworks.errors import DataError, UsageError
from tests.data.corpus_helpers import contents, many, tokenizer_directory, write_documents

pytest.importorskip("ray.data", reason="Ray Data is not installed: pip install 'ray[data]'")


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    return tokenizer_directory(tmp_path / "tokenizer")


def test_the_shards_are_those_of_a_local_build(cluster: None, tmp_path: Path, tokenizer: Path) -> None:
    from bertworks.ray import build_corpus as build_on_ray

    files = [write_documents(tmp_path / f"{n}.txt", many(10 + 5 * n)) for n in range(4)]
    (tmp_path / "4.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in many(50)))
    files.append(tmp_path / "4.jsonl")
    options = CorpusOptions(shard_tokens=700, drop_duplicates=True)
    seen: list[Any] = []
    build_on_ray(files, tokenizer, tmp_path / "ray", options, progress=seen.append)
    build_corpus(files, tokenizer, tmp_path / "local", options, engine=LocalEngine(1))
    assert contents(tmp_path / "ray") == contents(tmp_path / "local")
    corpus = Corpus.open(tmp_path / "ray")
    assert len(corpus.manifest["shards"]) > 2
    assert corpus.manifest["totals"]["duplicates"] > 0
    assert seen[-1].bytes_read == seen[-1].bytes_total


def test_a_stopped_local_build_is_continued(
    cluster: None, tmp_path: Path, tokenizer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bertworks.ray import build_corpus as build_on_ray

    monkeypatch.setattr(documents_module, "BLOCK_CHARACTERS", 1000)
    files = [write_documents(tmp_path / f"{n}.txt", many(30)) for n in range(3)]
    options = CorpusOptions(shard_tokens=700)
    build_corpus(files, tokenizer, tmp_path / "whole", options, engine=LocalEngine(1))

    def stop(report: Any) -> None:
        if report.totals.documents > 40:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_corpus(files, tokenizer, tmp_path / "out", options, engine=LocalEngine(1), progress=stop)
    report = build_on_ray(files, tokenizer, tmp_path / "out", options)
    assert report.resumed.documents > 0
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_another_tokenizer_at_the_same_place(cluster: None, tmp_path: Path, tokenizer: Path) -> None:
    """The cluster's processes outlive a build; none may still use the tokenizer of the one before."""
    from bertworks.ray import build_corpus as build_on_ray

    files = [write_documents(tmp_path / f"{n}.txt", many(4 + n)) for n in range(4)]
    build_on_ray(files, tokenizer, tmp_path / "out")
    other = tokenizer_directory(tmp_path / "other", "gpt2")
    build_on_ray(files, other, tmp_path / "out", restart=True)
    build_corpus(files, other, tmp_path / "local", engine=LocalEngine(1))
    assert contents(tmp_path / "out") == contents(tmp_path / "local")


def test_errors_are_ours(cluster: None, tmp_path: Path, tokenizer: Path) -> None:
    from bertworks.ray import build_corpus as build_on_ray

    good = write_documents(tmp_path / "good.txt", many(3))
    (tmp_path / "bad.txt").write_bytes(b"One.\n\xff\n")
    with pytest.raises(DataError, match=r"bad.txt:2: is not valid utf-8"):
        build_on_ray([good, tmp_path / "bad.txt"], tokenizer, tmp_path / "out")
    with pytest.raises(DataError, match=r"none.txt: no such file"):
        build_on_ray([good, tmp_path / "none.txt"], tokenizer, tmp_path / "out")
    with pytest.raises(UsageError, match="standard input"):
        build_on_ray(["-"], tokenizer, tmp_path / "out")
    assert not (tmp_path / "out").exists()
