"""`bertworks generate` as a user types it."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

import bertworks
from bertworks.cli.main import main
from tests.infer.test_generate import language_model, translator  # noqa: F401 - fixtures
from tests.text.test_sentencepiece import ENGLISH


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    def call(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return call


def test_one_prompt(run, language_model: Path) -> None:  # noqa: F811
    (best,) = bertworks.load(language_model).generate("The mill", max_tokens=8)
    assert run("generate", "The mill", "--model", language_model, "--max-tokens", 8) == (
        0,
        f"The mill{best.text}\n",
        "",
    )
    code, out, _ = run("generate", "The mill", "--model", language_model, "--max-tokens", 8, "--json")
    assert code == 0
    row = json.loads(out)
    assert row["prompt"] == "The mill"
    assert row["texts"][0]["text"] == best.text
    assert row["texts"][0]["tokens"] == list(best.tokens)
    code, out, _ = run("generate", "The mill", "--model", language_model, "--top-k", 9, "--num", 3, "--max-tokens", 4)
    assert code == 0
    assert out.count("The mill") == 3


def test_files_and_pipes(run, language_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    prompts = ["The river", "Nobody", "Walking, walked"]
    (tmp_path / "prompts.txt").write_text("\n".join(prompts) + "\n", encoding="utf-8")
    expected = bertworks.load(language_model).generate(prompts, max_tokens=5)
    options = ("--model", language_model, "--max-tokens", 5)
    code, out, _ = run("generate", "--file", tmp_path / "prompts.txt", *options, "--json")
    assert code == 0
    assert [json.loads(line)["texts"][0]["text"] for line in out.splitlines()] == [best.text for (best,) in expected]
    code, plain, _ = run("generate", "--file", tmp_path / "prompts.txt", *options)
    assert code == 0
    assert len(plain.splitlines()) >= 3
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(prompts).encode())))
    assert run("generate", "-", *options) == (0, plain, "")


def test_a_translation(run, translator: Path, tmp_path: Path) -> None:  # noqa: F811
    (best,) = bertworks.load(translator).generate(ENGLISH[0], beam=2)
    code, out, _ = run("generate", ENGLISH[0], "--model", translator, "--beam", 2)
    assert (code, out) == (0, best.text + "\n")
    assert run("convert", translator, tmp_path / "copy")[0] == 0
    assert run("generate", ENGLISH[0], "--model", tmp_path / "copy", "--beam", 2)[1] == out
    code, facts, _ = run("info", translator, "--json")
    assert code == 0
    assert json.loads(facts)["family"] == "marian"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give either a PROMPT or --file FILE"),
        (("a", "--file", "b"), "give either a PROMPT or --file FILE"),
        (("a", "--greedy", "--beam", "2"), "--greedy and --beam do not go together"),
        (("a", "--beam", "2", "--top-p", "0.5"), "beam and top_p do not go together"),
        (("a", "--num", "2"), "only one most probable text"),
        (("a", "--temperature", "0"), "temperature is 0"),
        (("a", "--beam", "5000"), "wider than the vocabulary"),
        (("geese " * 99,), "positions, which leaves none for new tokens"),
    ],
)
def test_errors(run, language_model: Path, arguments: tuple[str, ...], message: str) -> None:  # noqa: F811
    code, out, err = run("generate", *arguments, "--model", language_model)
    assert code == 2
    assert out == ""
    assert message in err


def test_a_model_that_writes_must_be_given(run, minilm_directory: Path) -> None:
    code, _, err = run("generate", "a")
    assert code == 2
    assert "give a model that writes with --model" in err
    code, _, err = run("generate", "a", "--model", minilm_directory)
    assert code == 2
    assert "no language-model head" in err


def test_a_file_in_place_of_a_prompt_is_told(
    run,
    language_model: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mill").write_text("The river\n", encoding="utf-8")
    code, out, err = run("generate", "mill", "--model", language_model, "--max-tokens", 1)
    assert (code, out[:4]) == (0, "mill")
    assert "the texts in it are prompts with --file mill" in err
    assert run("generate", "mill", "--model", language_model, "--max-tokens", 1, "--quiet") == (0, out, "")
    assert "--file" not in run("generate", "long " * 2000, "--model", language_model, "--max-tokens", 1)[2]
