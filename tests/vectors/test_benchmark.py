"""The parts of `benchmarks/vectors.py` on a tiny text: both engines learn from the same words. Never a time."""

import json
import lzma

import pytest
from benchmarks import vectors
from benchmarks.vectors import (
    ALGORITHMS,
    IN_ORDER,
    OURS,
    THEIRS,
    bertworks_engine,
    gensim_engine,
    main,
    parse,
    score_notes,
    score_table,
    scores,
    write_words,
)

from tests.vectors.small import DIM, made_up_texts

MACHINE = {"date": "2026-01-02T03:04:05+00:00", "processor": "abacus", "cores": 2, "memory_gib": 1, "threads": 2}


@pytest.fixture
def text(tmp_path):
    (tmp_path / "corpus").mkdir()
    path = tmp_path / "corpus" / "wiki-en-00.txt.xz"
    with lzma.open(path, "wt", encoding="utf-8") as file:
        file.write("\n\n".join(line.replace("the", "The,") for line in made_up_texts(120)))
    assert write_words([path], tmp_path / "text.txt") == (120 * 15, 120)
    assert write_words([path], tmp_path / "short.txt", most=7)[1] == 7
    return tmp_path / "text.txt"


@pytest.fixture
def sets(tmp_path):
    folder = tmp_path / "wordvectors"
    folder.mkdir()
    (folder / "questions-words.txt").write_text(": a\nsea1 sea2 sky1 sky2\n: gram1\nsea1 sky1 sea2 sky2\n")
    (folder / "wordsim353.tsv").write_text("sea1\tsea2\t9\nsea1\tsky1\t1\nsea3\tsky5\t2\n")
    (folder / "simlex999.txt").write_text("sea1\tsea2\t9\nsea1\tunknown\t1\n")
    return folder


def call_of(text, algorithm, seed=0):
    return {"path": str(text), "algorithm": algorithm, "dim": DIM, "epochs": 1, "window": 3, "seed": seed}


@pytest.mark.parametrize("algorithm", ["skipgram", "cbow"])
def test_engines_learn_from_the_same_words(text, algorithm):
    call = call_of(text, algorithm)
    in_order = bertworks_engine(threads=2, hogwild=False)
    ours = [in_order(call), bertworks_engine(threads=2, hogwild=True)(call)]
    gensim = gensim_engine(threads=1)
    theirs = [gensim(call), gensim(call, from_file=True)]
    for words, matrix in (*ours, *theirs):
        assert set(words) == set(ours[0][0])
        assert matrix.shape == (27, DIM)


@pytest.mark.parametrize("algorithm", ["skipgram", "cbow"])
@pytest.mark.parametrize("make", [lambda: bertworks_engine(threads=1, hogwild=False), lambda: gensim_engine(threads=1)])
def test_a_pass_starts_anew_and_seeds_matter(text, algorithm, make):
    engine = make()
    first, other, again = (engine(call_of(text, algorithm, seed))[1] for seed in (0, 1, 0))
    assert (first == again).all()
    assert not (first == other).any()


def test_gensims_vectors_are_those_of_a_new_model_with_this_seed(text):
    from gensim.models import Word2Vec

    engine = gensim_engine(threads=1)
    found = [engine(call_of(text, "skipgram", seed))[1] for seed in (0, 3)][1]
    lines = [line.split() for line in text.read_text().splitlines()]
    fresh = Word2Vec(vector_size=DIM, window=3, sg=1, negative=5, sample=1e-3, min_count=5, workers=1, seed=3)
    fresh.build_vocab(lines)
    fresh.train(lines, total_examples=fresh.corpus_count, epochs=1)
    assert (found == fresh.wv.vectors).all()


def test_scores_and_options(text, sets, tmp_path):
    found = scores(bertworks_engine(threads=1, hogwild=False)(call_of(text, "cbow")), sets)
    assert {"semantic", "syntactic", "wordsim353.tsv"} <= set(found)
    assert found["simlex999.txt"] == 0  # nothing to correlate
    lines = score_table({"cbow": {"bertworks": {name: [value] for name, value in found.items()}}}).splitlines()
    assert len({line.count("|") for line in lines}) == 1
    assert parse(["--algorithms", "glove"]).algorithms == ["glove"]
    assert tuple(parse([]).algorithms) == ALGORITHMS
    for wrong in (
        ["--algorithms", "elmo"],
        ["--score-seeds", "0"],
        ["--only-scores", "--output", str(tmp_path / "none")],
    ):
        with pytest.raises(SystemExit):
            parse(wrong)


def test_a_table_shows_the_mean_and_the_range_below_its_command():
    def scored(command, seeds):
        return {"command": command, "machine": MACHINE, "files": 2, "words": 8.3e6, "seeds": seeds}

    report = {
        "scores": {
            "cbow": {"ours": {"semantic": [0.1, 0.3], "simlex999.txt": [0.2, 0.21]}},
            "glove": {"ours": {"simlex999.txt": [0.1]}},
        },
        "scored": {"cbow": scored("one", [0, 1]), "glove": scored("other", [0])},
    }
    notes = score_notes(report)
    assert len(notes) == 4
    assert all(part in notes[0] for part in ("8.3 million words (2 files)", "2 seeds", "`one` on 2026-01-02, abacus"))
    assert "| cbow, ours |  | 20.0% (10.0%–30.0%) |  |  | 0.205 (0.200–0.210) |" in notes[1]
    assert "one seed" in notes[2]
    assert "| glove, ours |  |  |  |  | 0.100 |" in notes[3]
    report["scored"]["glove"] = scored("one", [0, 1])
    assert len(score_notes(report)) == 2


@pytest.mark.parametrize("threads", [1, 2])
def test_only_scores_leaves_the_speed_as_it_was(text, sets, tmp_path, capsys, monkeypatch, threads):
    monkeypatch.setattr(vectors, "ROOT", tmp_path)
    output = tmp_path / "vectors.json"
    machine = {**MACHINE, "packages": {}}
    old = {"command": "old", "machine": machine, "files": 2, "words": 1e6, "seeds": [0]}
    report = {"title": "t", "command": "old", "machine": machine, "rounds": 2, "workloads": {}, "notes": ["gone"]}
    scores_before = {"cbow": {"ours": {"semantic": [0.5]}}, "glove": {"ours": {"semantic": [0.25]}}}
    report |= {"scores": scores_before, "scored": {"cbow": old, "glove": old}}
    output.write_text(json.dumps(report))
    options = ["--files", "1", "--epochs", "1", "--dim", str(DIM), "--algorithms", "cbow", "--threads", str(threads)]
    places = ["--data", str(tmp_path), "--output", str(output), "--write-docs"]
    main(["--only-scores", "--score-seeds", "2", *options, *places])
    now = json.loads(output.read_text())
    assert {key: now[key] for key in ("command", "machine", "rounds", "workloads")} == {
        key: report[key] for key in ("command", "machine", "rounds", "workloads")
    }
    assert list(now["scores"]["cbow"]) == ([IN_ORDER, THEIRS] if threads == 1 else [OURS, IN_ORDER, THEIRS])
    assert all(len(values) == 2 for found in now["scores"]["cbow"].values() for values in found.values())
    assert now["scores"]["glove"] == scores_before["glove"]
    assert now["scored"]["glove"] == old
    new = now["scored"]["cbow"]
    assert (new["files"], new["words"], new["seeds"]) == (1, 120 * 15, [0, 1])
    assert "--only-scores --score-seeds 2" in new["command"]
    page = (tmp_path / "docs" / "benchmarks" / "vectors.md").read_text()
    assert page in capsys.readouterr().out
    assert new["command"] in page
    assert "gone" not in page


def test_more_seeds_come_after_the_measured_ones(text, sets, tmp_path, monkeypatch):
    """The speed is made up; the vectors of the first pass are those of seed 0."""
    engines = {OURS: bertworks_engine(2, hogwild=True), IN_ORDER: bertworks_engine(2, hogwild=False)}

    def measured(made, workload, compare, **more):
        assert [engine.name for engine in made] == [OURS, IN_ORDER]
        for engine in engines.values():
            compare([engine(workload.calls[0])], [])
        return {"engines": {name: {"check": {}} for name in engines}}

    monkeypatch.setattr(vectors, "measure", measured)
    options = parse(["--score-seeds", "3", "--epochs", "1", "--dim", str(DIM), "--data", str(tmp_path)])
    work, found = vectors.measure_algorithm("bernoulli", text, text, 1800, options)
    assert work == {"engines": {OURS: {}, IN_ORDER: {}}}
    assert list(found) == [OURS, IN_ORDER]
    assert all(len(values) == 3 for engine in found.values() for values in engine.values())
    assert found[IN_ORDER] == vectors.score_seeds("bernoulli", text, range(3), options)[IN_ORDER]
