"""`bertworks vectors …` as a user types it."""

import json

import numpy as np
import pytest

from bertworks.cli.main import main
from bertworks.vectors import WordVectors
from tests.vectors.small import few_vectors, made_up_texts

SMALL = [
    "--dim",
    12,
    "--epochs",
    6,
    "--window",
    3,
    "--min-count",
    1,
    "--learning-rate",
    0.1,
]


@pytest.fixture
def run(capsys):
    def call(*arguments: object) -> tuple[int, str, str]:
        code = main(["vectors", *(str(argument) for argument in arguments)])
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(made_up_texts()), encoding="utf-8")
    return path


@pytest.fixture
def few(tmp_path):
    few_vectors().save(tmp_path / "few")
    return tmp_path / "few"


@pytest.mark.parametrize("algorithm", ["skipgram", "cbow", "glove", "bernoulli"])
def test_train_and_look(run, text, tmp_path, algorithm):
    made = tmp_path / "made"
    other = "training.max_weight_count=8" if algorithm == "glove" else "training.negative=4"
    code, out, err = run(
        "train", text, "--algorithm", algorithm, *SMALL, "--set", other, "-o", made, "--json", "--quiet"
    )
    assert (code, err) == (0, "")
    facts = json.loads(out)
    assert (facts["words"], facts["dim"], facts["words_read"]) == (27, 12, 6000)
    assert {path.name for path in made.iterdir()} == {
        *("vectors.safetensors", "words.tsv", "config.toml", "metrics.json", "report.html", "README.md")
    }
    metrics = json.loads((made / "metrics.json").read_text())
    assert metrics["metrics"]["loss"] == facts["loss"]
    assert f'algorithm = "{algorithm}"' in (made / "config.toml").read_text()
    page = (made / "report.html").read_text()
    assert "<svg" in page
    assert ("Uncertainty" in page) == (algorithm == "bernoulli")
    code, out, _ = run("similar", made, "sea1", "--top", 3, "--json")
    near = json.loads(out)
    assert code == 0
    assert len(near) == 3
    assert ("deviation" in near[0]) == (algorithm == "bernoulli")
    again = tmp_path / "again"
    assert run("train", text, "--config", made / "config.toml", "-o", again)[0] == 0
    assert (again / "vectors.safetensors").read_bytes() == (made / "vectors.safetensors").read_bytes()


def test_a_seed_of_0_is_a_seed(run, text, tmp_path):
    (tmp_path / "settings.toml").write_text("[training]\nseed = 7\n")
    short = [*SMALL, "--epochs", 1, "--quiet", "--config", tmp_path / "settings.toml"]
    for name, given, seed in (("own", (), 7), ("nought", ("--seed", 0), 0)):
        assert run("train", text, *short, *given, "-o", tmp_path / name)[0] == 0
        assert f"seed = {seed}\n" in (tmp_path / name / "config.toml").read_text()


def test_hogwild_says_what_it_trades(run, text, tmp_path):
    code, out, err = run("train", text, *SMALL, "--hogwild", "--threads", 2, "-o", tmp_path / "made")
    assert code == 0
    assert "2 threads without locks: another run will give other vectors" in err
    assert "27 vectors of 12 numbers from 6,000 words" in out
    assert "without locks" in (tmp_path / "made" / "README.md").read_text()
    assert "without locks" in (tmp_path / "made" / "report.html").read_text()


def test_analogy_and_similar_for_people(run, few):
    code, out, _ = run("analogy", few, "man", "woman", "king", "--top", 1)
    assert (code, out.split()[1]) == (0, "queen")
    code, out, _ = run("similar", few, "apple", "--top", 1)
    assert (code, out.split()) == (0, ["0.999", "pear"])


def test_evaluate(run, few, tmp_path):
    (tmp_path / "a.txt").write_text(
        ": family\nman woman king queen\nman woman boy girl\n: gram1\nking queen man woman\n"
    )
    (tmp_path / "s.tsv").write_text("man\twoman\t1\nking\tqueen\t7\napple\tpear\t9\n")
    code, out, _ = run("evaluate", few, tmp_path / "a.txt", tmp_path / "s.tsv", "--json")
    assert code == 0
    analogies, similarity = json.loads(out)
    assert (analogies["value"], analogies["asked"], analogies["rows"]) == (1.0, 2, 3)
    assert similarity["value"] == pytest.approx(1.0)
    code, out, _ = run("evaluate", few, tmp_path / "a.txt", tmp_path / "s.tsv")
    assert "100.0%" in out
    assert "2 of 3" in out
    assert "Spearman" in out


def test_too_little_text_and_settings_of_other_algorithms(run, tmp_path):
    (tmp_path / "few.txt").write_text("one two three\n")
    train = ("train", tmp_path / "few.txt", "--min-count", "1", "--dim", "5", "-o", tmp_path / "v")
    code, _, err = run(*train)
    assert code == 2
    assert "nothing was learnt: training.subsample = 0.001 leaves no two neighbours" in err
    assert not (tmp_path / "v").exists()
    assert run(*train, "--set", "training.subsample=0")[0] == 0
    code, _, err = run(*train, "--overwrite", "--algorithm", "glove", "--set", "training.negative=50")
    assert code == 2
    assert "training.negative means nothing to glove; it is for skipgram, cbow, bernoulli" in err
    code, _, err = run("train", tmp_path / "few.txt", "-o", "/proc/nowhere/v")
    assert code == 2
    assert "cannot write" in err


def test_bias(run, tmp_path):
    random = np.random.default_rng(0)
    words = ["she", "he", "woman", "man", "nurse", "programmer", "homemaker", "doctor", "table"]
    matrix = random.normal(size=(9, 5)) * 0.2 + [0, 0, 0, 0, 1]
    matrix[:, 0] = [1, -1, 1, -1, 0.8, -0.7, 0.9, -0.4, 0]
    WordVectors(words, matrix).save(tmp_path / "v")
    code, out, _ = run("bias", tmp_path / "v", "-o", tmp_path / "fair", "--example", "programmer")
    assert code == 0
    assert "mean projection of neutral words" in out
    assert "leaning to he: programmer" in out
    assert (tmp_path / "fair" / "report.html").exists()
    result = json.loads((tmp_path / "fair" / "bias.json").read_text())
    assert result["after"]["direct"] < 1e-6 < result["before"]["direct"]
    assert out.split("leaning to she: ")[1].splitlines()[0] == "homemaker, nurse"  # and nobody who leans the other way
    assert run("similar", tmp_path / "fair", "nurse")[0] == 0
    assert run("bias", tmp_path / "fair")[1].count("none of the neutral words") == 2
    code, out, _ = run("bias", tmp_path / "v", "--json")
    assert code == 0
    assert json.loads(out)["before"]["projections"] == result["before"]["projections"]


@pytest.mark.parametrize("name", ["v.kv", "v.bin", "v.txt", "v"])
def test_convert(run, few, tmp_path, name):
    code, out, _ = run("convert", few, tmp_path / "to" / name if name == "v" else tmp_path / name)
    assert code == 0
    assert "7 vectors of 3 numbers" in out
    read = WordVectors.load(tmp_path / "to" / name if name == "v" else tmp_path / name)
    np.testing.assert_array_equal(read.matrix, few_vectors().matrix)


def test_wrong_use_gets_one_sentence(run, few, text, tmp_path):
    empty = tmp_path / "empty.txt"
    empty.write_text("")
    short = tmp_path / "short.txt"
    short.write_text("only few words")
    broken = tmp_path / "broken.txt"
    broken.write_text("2 3\na 1 2 3\nb 1 2\n")
    new = tmp_path / "new"
    for words, arguments in [
        ("'emperor' has no vector here", ["similar", few, "emperor"]),
        (f"{broken}:3: has 2 numbers, not 3 as the first line says", ["similar", broken, "a"]),
        ("no such file", ["similar", tmp_path / "absent", "a"]),
        ("training.algorithm must be one of skipgram, cbow", ["train", text, "--algorithm", "skip", "-o", new]),
        (
            "unknown key training.negatives (did you mean 'negative'?)",
            ["train", text, "--set", "training.negatives=1", "-o", new],
        ),
        ("several threads need --hogwild", ["train", text, "--threads", 2, "-o", new]),
        ("exists already and is not empty", ["train", text, "-o", few]),
        ("there are no words in the text", ["train", empty, "-o", new]),
        (f"{short}: no word occurs 5 times in 3 words", ["train", short, "-o", new]),
        ("no such file", ["train", tmp_path / "absent.txt", "-o", new]),
        ("is not two words and a number", ["evaluate", few, short]),
        ("unknown --format 'word3vec'", ["convert", few, tmp_path / "x", "--format", "word3vec"]),
        ("exists already", ["convert", few, few]),
        ("none of the pairs", ["bias", _without_pairs(tmp_path)]),
    ]:
        code, out, err = run(*arguments)
        assert (code, out) == (2, ""), (arguments, err)
        assert err.startswith("error:")
        assert words in err, err
        assert not new.exists()


def _without_pairs(tmp_path):
    WordVectors(["tea", "milk"], [[1, 2], [3, 4]]).save(tmp_path / "tea")
    return tmp_path / "tea"
