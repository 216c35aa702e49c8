"""A translation run: from files to a model, stopped and resumed, with every kind of position and both kinds of model."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from bertworks.errors import ConfigError, DataError, OutputError, UsageError
from bertworks.infer.decode import Greedy
from bertworks.infer.generate import Generation
from bertworks.infer.translate import Translator
from bertworks.models.seq2seq import EncoderDecoder
from bertworks.nn.packed import Packed
from bertworks.text.tokenizer import Tokenizer
from bertworks.train.schedule import scale_at
from bertworks.translate.config import RECIPES, load_recipe
from bertworks.translate.run import Finished, Note, Planned, Stepped, Stopped, TranslateOptions, train_translator
from tests.translate.small import (
    SHARED,
    SMALL,
    SMALL_OF,
    finished,
    losses,
    make_tokenizer,
    make_transformer,
    run,
    write_pairs,
)

RNN = {"recipe": "rnn-attention"}


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_can_be_read(name: str) -> None:
    recipe = load_recipe(name, ("train.epochs=2",))
    assert recipe.about
    assert recipe.train.epochs == 2
    with pytest.raises(UsageError, match="did you mean 'transformer'"):
        load_recipe("transfomer")


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("steps", [100, 3000])
def test_recipes_end_with_small_steps_however_long(name: str, steps: int) -> None:
    schedule = load_recipe(name).train.schedule
    scales = [scale_at(schedule, step, steps) for step in range(steps)]
    assert max(scales) == 1
    assert scales[-1] < 0.02
    original = load_recipe(name, ("train.schedule.name=noam", "train.schedule.warmup=0.1")).train.schedule
    assert scale_at(original, steps - 1, steps) == pytest.approx(0.1**0.5)  # as in 2017


@pytest.mark.parametrize("pre_norm", [False, True])
def test_a_new_model_lets_its_input_through(pre_norm: bool) -> None:
    """Otherwise the decoder is long no more than a language model before it looks at its source."""
    model = make_transformer(make_tokenizer(), num_layers=3, hidden_size=96, intermediate_size=192, pre_norm=pre_norm)
    ids = torch.randint(10, 100, (2, 12), generator=torch.Generator().manual_seed(0))
    source, target = (Packed.from_sequences([row.tolist()]) for row in ids)
    memory = model.encode(source)
    for states in (model.encoder(source, layers=[0, 3]), model.decoder(target, layers=[0, 3], memory=memory)):
        assert torch.cosine_similarity(states.layers[0], states.layers[3]).min() > 0.7


def test_the_first_evaluation_is_as_long_as_a_later_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An untrained model ends no sentence; what a budget sets aside for evaluations must not be measured by that."""
    written: list[list[list[Generation]]] = []
    write = Translator.write

    def spied(self: Translator, *texts: Any, **options: Any) -> list[list[Generation]]:
        written.append(write(self, *texts, **options))
        return written[-1]

    monkeypatch.setattr(Translator, "write", spied)
    source, target = write_pairs(tmp_path, 60)
    run(tmp_path / "run", (source, target), dev=(source, target), steps=1)
    tokenizer = Tokenizer.from_directory(tmp_path / "run")
    wanted = tokenizer.ids(Path(target).read_text(encoding="utf-8").splitlines())[1]
    lengths = [len(best.tokens) for (best,) in written[0]]
    assert len(lengths) == len(wanted)
    assert all(length <= most + 1 for length, most in zip(lengths, wanted, strict=True))


@pytest.mark.parametrize("options", [{}, RNN], ids=["transformer", "rnn"])
def test_a_run_leaves_a_model_and_what_is_known_of_it(tmp_path: Path, options: dict[str, str]) -> None:
    files = write_pairs(tmp_path)
    output = tmp_path / "run"
    events = run(output, files, test=files, steps=6, **options)
    result = finished(events).result
    assert [event.plan.steps for event in events if isinstance(event, Planned)] == [6]
    assert {"loss", "token_perplexity", "token_accuracy", "bleu", "bleu_greedy"} <= set(result["metrics"])
    assert set(result["test"]) == {"bleu", "bleu_greedy"}
    assert json.loads((output / "metrics.json").read_text()) == result
    assert result["best_step"] <= result["steps"] == 6
    page = (output / "report.html").read_text(encoding="utf-8")
    assert "BLEU of greedy translations" in page
    assert 'class="heat small"' in page
    assert not re.search(r"https?://(?!www.w3.org)|<script", page)
    assert "pipeline_tag: translation" in (output / "README.md").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in (output / "predictions.jsonl").read_text(encoding="utf-8").splitlines()]
    assert rows[0].keys() == {"index", "source", "translation", "reference", "score"}
    translator = Translator.load(output)
    again = translator.translate([rows[0]["source"], rows[1]["source"]])
    assert translator.window == 24
    assert len(again) == 2
    assert isinstance(run(output, (), resume=True, steps=None, **options)[-1], Finished)


def test_what_is_kept_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = iter([0.0, 0.0, 9.0, 4.0, 0.5, 0.4])  # before the training, while it trains, and of the finished one
    monkeypatch.setattr("bertworks.translate.evaluate.score", lambda *_: next(scores))
    output = tmp_path / "run"
    result = finished(
        run(output, write_pairs(tmp_path), "model.hidden_size=24", "train.evaluation.steps=2", steps=6)
    ).result
    assert (result["best_step"], result["steps"]) == (4, 6)
    for name in ("report.html", "README.md"):
        page = (output / name).read_text(encoding="utf-8")
        assert "the weights of step 4 of 6, the best by BLEU while it trained" in page
        assert "learnt next to nothing yet" in page
        assert "2 + 2 layers of width 24" in page


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "relative", "rotary"])
def test_every_kind_of_position_is_trained_saved_and_reloaded(tmp_path: Path, positions: str) -> None:
    output = tmp_path / "run"
    run(output, write_pairs(tmp_path), f"model.positions={positions}", steps=2)
    model = Translator.load(output).model
    assert isinstance(model, EncoderDecoder)
    kinds = (model.config.encoder.positions.absolute, model.config.decoder.positions.relative)
    assert (
        kinds
        == {
            "sinusoidal": ("sinusoidal", "none"),
            "learned": ("learned", "none"),
            "relative": ("none", "buckets"),
            "rotary": ("none", "rotary"),
        }[positions]
    )
    stored = json.loads((output / "config.json").read_text())
    assert stored["model_type"] == ("marian" if positions == "sinusoidal" else "bertworks")
    first = Translator.load(output).translate(["The dog sees the cat."])
    second = Translator.load(output).translate(["The cat sees the dog."])
    assert first[0].score != pytest.approx(second[0].score, abs=1e-6)  # the order of words is seen


def test_sinusoidal_models_open_in_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    output = tmp_path / "run"
    run(output, write_pairs(tmp_path), steps=3)
    theirs = transformers.MarianMTModel.from_pretrained(output).eval()
    ours = Translator.load(output)
    tokenizer = Tokenizer.from_directory(output)
    text = "Today the dog sees the cat."
    ids = torch.from_numpy(tokenizer.encode(text).ids.astype("int64"))[None]
    made = theirs.generate(ids, num_beams=1, do_sample=False, max_new_tokens=2 * ids.shape[1] + 10)
    assert tokenizer.decode(made[0].tolist()).strip() == ours.translate([text], Greedy())[0].text


@pytest.mark.parametrize("options", [{}, RNN], ids=["transformer", "rnn"])
def test_the_loss_falls(tmp_path: Path, options: dict[str, str]) -> None:
    settings = (
        "model.dropout=0",
        "train.schedule.warmup=5",
        "train.optimizer.learning_rate=1e-2",
        "train.evaluation.steps=0",
    )
    events = run(tmp_path / "run", write_pairs(tmp_path), *settings, steps=30, **options)
    found = losses(events)
    assert sum(found[-5:]) / 5 < 0.8 * found[0]


@pytest.mark.parametrize("options", [{}, RNN], ids=["transformer", "rnn"])
def test_a_resumed_run_is_the_same(tmp_path: Path, options: dict[str, str]) -> None:
    files = write_pairs(tmp_path)
    small = (*SHARED, *SMALL_OF[options.get("recipe", "transformer")])
    whole = run(tmp_path / "whole", files, steps=7, **options)
    stop = threading.Event()
    halves = []
    for event in train_translator(
        TranslateOptions(output=tmp_path / "cut", train=files, settings=small, steps=7, track=(), **options), stop=stop
    ):
        halves.append(event)
        if isinstance(event, Stepped) and event.report.step == 3:
            stop.set()
    assert isinstance(halves[-1], Stopped)
    assert not (tmp_path / "cut" / "config.json").exists()
    rest = list(train_translator(TranslateOptions(output=tmp_path / "cut", resume=True, track=())))
    assert losses(halves) + losses(rest) == losses(whole)
    one, other = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "cut"))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert finished(rest).result["metrics"] == finished(whole).result["metrics"]


def test_a_run_is_resumed_as_it_was_started(tmp_path: Path) -> None:
    files = write_pairs(tmp_path)
    output = tmp_path / "run"
    stop = threading.Event()
    for event in train_translator(
        TranslateOptions(output=output, train=files, settings=SMALL, steps=5, track=()), stop=stop
    ):
        if isinstance(event, Stepped):
            stop.set()

    def resumed(**options: object) -> list[object]:
        return list(train_translator(TranslateOptions(output=output, resume=True, track=(), **options)))  # type: ignore[arg-type]

    with pytest.raises(OutputError, match="can be continued with --resume"):
        train_translator(TranslateOptions(output=output, train=files)).__next__()
    with pytest.raises(UsageError, match=r"model.hidden_size: 32 -> 64"):
        resumed(settings=("model.hidden_size=64",))
    with pytest.raises(UsageError, match=r"run.steps: 5 -> 9"):
        resumed(steps=9)
    Path(files[0]).write_text(Path(files[0]).read_text().replace("dog", "cat"))
    with pytest.raises(UsageError, match="other pairs"):
        resumed()
    write_pairs(tmp_path)
    assert isinstance(resumed(settings=("train.log_steps=2",))[-1], Finished)


def test_length_by_epochs_steps_or_budget(tmp_path: Path) -> None:
    files = write_pairs(tmp_path)
    planned = next(
        event for event in run(tmp_path / "a", files, "train.epochs=0.5", steps=None) if isinstance(event, Planned)
    )
    assert planned.plan.epochs == pytest.approx(0.5, abs=0.2)
    with pytest.raises(UsageError, match="not both"):
        run(tmp_path / "b", files, steps=3, budget=10.0)
    made = finished(run(tmp_path / "c", files, steps=None, budget=4.0)).result
    assert made["steps"] >= 1


def test_bad_input(tmp_path: Path) -> None:
    source, target = write_pairs(tmp_path)
    output = tmp_path / "run"
    with pytest.raises(UsageError, match="--train SOURCE TARGET"):
        run(output, ())
    shorter = tmp_path / "shorter.de"
    shorter.write_text(
        "".join(Path(target).read_text(encoding="utf-8").splitlines(keepends=True)[:-3]), encoding="utf-8"
    )
    with pytest.raises(DataError, match=r"shorter.de:197: ends after 197 lines, but .*text.en has 200 lines"):
        run(output, (source, str(shorter)))
    with pytest.raises(ConfigError, match="not a multiple"):
        run(output, (source, target), "model.num_attention_heads=5")
    with pytest.raises(ConfigError, match="did you mean 'positions'"):
        run(output, (source, target), "model.position=rotary")
    with pytest.raises(UsageError, match="batch_tokens is 4"):
        run(output, (source, target), "train.batch_tokens=4")
    assert not output.exists()


def test_notes_tell_what_was_left_out(tmp_path: Path) -> None:
    source, target = write_pairs(tmp_path, 100)
    with Path(source).open("a") as file:
        file.write("dog " * 40 + "\n\n")
    with Path(target).open("a") as file:
        file.write("Hund\nleer\n")
    events = run(tmp_path / "run", (source, target), steps=1)
    notes = [event.text for event in events if isinstance(event, Note)]
    assert any("1 of" in note and "longer than data.max_length" in note for note in notes)
    planned = next(event for event in events if isinstance(event, Planned))
    assert any("a line with an empty side left out (the first is line 102)" in sentence for sentence in planned.data)


def test_bytes_have_no_unknowns(tmp_path: Path) -> None:
    output = tmp_path / "run"
    run(output, write_pairs(tmp_path), "data.algorithm=byte-bpe", "data.vocab_size=400", steps=1)
    tokenizer = Tokenizer.from_directory(output)
    text = "狗 und 🐶"
    assert tokenizer.decode(tokenizer.encode(text).ids).strip() == text
