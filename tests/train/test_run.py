"""Whole runs: every recipe ends in a model that others open; a stopped run goes on exactly; bad input is told first."""

from __future__ import annotations

import copy
import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import bertworks
from bertworks import hub
from bertworks.config import to_dict
from bertworks.data.corpus import Corpus
from bertworks.errors import BertworksError, CheckpointError, DataError, OutputError, UsageError
from bertworks.hub.sentence import SentenceSettings
from bertworks.nn.packed import Packed
from bertworks.train.assemble import assemble
from bertworks.train.describe import how_made
from bertworks.train.evaluate import Evaluation, token_counts
from bertworks.train.log import read_metrics
from bertworks.train.parallel import Parallel
from bertworks.train.recipes import RunSection, load_recipe
from bertworks.train.run import Finished, Note, Planned, RunOptions, Stepped, Stopped, pretrain
from bertworks.train.settle import changes_of_checkpoint, open_corpus
from bertworks.train.state import weights_sha256
from tests.train.runs import SMALL, finished, losses, make_corpus, run, timeless

Corpora = Callable[[str], Path]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Corpora:
    """Corpora by kind of tokenizer, each made when it is first asked for."""
    folder = tmp_path_factory.mktemp("corpora")
    made: dict[str, Path] = {}

    def corpus(kind: str) -> Path:
        if kind not in made:
            made[kind] = make_corpus(folder, kind)
        return made[kind]

    return corpus


@pytest.fixture(scope="module")
def pretrained(corpora: Corpora, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the recipe bert: the teacher and the start of others."""
    output = tmp_path_factory.mktemp("pretrained") / "run"
    run(corpora("bert"), output, "model.size=4x24x3", recipe="bert")
    return output


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# -- every recipe ------------------------------------------------------------------------------------------------------

RECIPES = [
    # recipe, tokenizer, their class, our head
    ("bert", "bert", "AutoModelForPreTraining", ("mlm", "nsp")),
    ("roberta", "roberta", "AutoModelForMaskedLM", ("mlm",)),
    ("albert", "bert", "AutoModelForPreTraining", ("mlm", "sop")),
    ("electra", "bert", "AutoModelForPreTraining", ("rtd",)),
    ("ernie", "bert", "AutoModelForMaskedLM", ("mlm",)),
    ("gpt", "gpt2", "AutoModelForCausalLM", ("lm",)),
    ("modern", "bert", "AutoModelForMaskedLM", ("mlm",)),
]


@pytest.mark.parametrize(("recipe", "kind", "their_class", "heads"), RECIPES, ids=[row[0] for row in RECIPES])
def test_every_recipe_ends_in_a_model(
    recipe: str, kind: str, their_class: str, heads: tuple[str, ...], corpora: Corpora, tmp_path: Path
) -> None:
    import transformers

    output = tmp_path / "run"
    events = run(corpora(kind), output, recipe=recipe, steps=4)
    result = finished(events)
    assert result.steps == 4
    assert len(losses(events)) == 4
    assert all(np.isfinite(losses(events)))
    assert result.metrics["loss"] > 0
    for name in ("config.toml", "metrics.json", "metrics.jsonl", "report.html", "README.md", "tokenizer.json"):
        assert (output / name).is_file(), name

    loaded = hub.load(output)
    assert tuple(loaded.model.heads) == heads
    ids = [*loaded.tokenizer.encode("The river runs past the old mill.").ids]
    theirs = getattr(transformers, their_class).from_pretrained(output).eval()
    with torch.inference_mode():
        given = theirs(torch.tensor([ids]))
        if recipe == "gpt":
            logits = loaded.model.logits(Packed.from_sequences([ids]), "lm")
            expected = given.logits[0]
        elif recipe == "electra":
            logits = loaded.model.logits(Packed.from_sequences([ids]), "rtd").squeeze(-1)
            expected = given.logits[0]
        else:
            logits = loaded.model.logits(Packed.from_sequences([ids]), "mlm")
            expected = given.logits[0] if hasattr(given, "logits") else given.prediction_logits[0]
        torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)
        if len(heads) == 2:  # the pair's head
            pair = given.seq_relationship_logits if recipe == "bert" else given.sop_logits
            ours = loaded.model.logits(Packed.from_sequences([ids]), heads[1])
            torch.testing.assert_close(ours, pair, atol=1e-5, rtol=1e-5)
    if "mlm" in heads:
        assert len(bertworks.load(output).fill("The [MASK] runs.", top_k=3)[0]) == 3
    if recipe == "gpt":
        tokenizer = transformers.AutoTokenizer.from_pretrained(output)
        made = theirs.generate(**tokenizer("The river", return_tensors="pt"), max_new_tokens=3, do_sample=False)
        assert made.shape[1] > 3
    if recipe == "electra":
        generator = bertworks.load(output / "generator")
        assert len(generator.fill("The [MASK] runs.", top_k=2)[0]) == 2
        shared = generator.model.body.embeddings.tokens.weight
        assert torch.equal(shared, loaded.model.body.embeddings.tokens.weight)
    if recipe == "ernie":
        assert (output / "lexicon.txt").is_file()


def test_a_run_learns(corpora: Corpora, tmp_path: Path) -> None:
    events = run(corpora("bert"), tmp_path / "run", steps=25)
    seen = losses(events)
    assert np.mean(seen[-5:]) < np.mean(seen[:5]) - 0.2
    lines = read_metrics(tmp_path / "run")
    assert lines[0]["step"] == 0  # the untrained model
    assert lines[-1]["held_out_loss"] < lines[0]["held_out_loss"] - 0.2


def test_what_is_written(corpora: Corpora, tmp_path: Path) -> None:
    output = tmp_path / "my-run"
    events = run(corpora("bert"), output, "data.sequence_length=32", "data.long_sequence_length=64", steps=4)
    plan = next(event.plan for event in events if isinstance(event, Planned))
    assert (plan.steps, plan.first_step) == (4, 0)
    assert plan.parameters == sum(p.numel() for p in hub.load(output).model.parameters())
    assert plan.tokens_per_second is not None
    assert plan.flops == pytest.approx(plan.flops_per_token * plan.tokens)
    result = json.loads((output / "metrics.json").read_text())
    assert set(result) >= {"task", "metrics", "seeds", "data", "model", "seconds"}
    assert result["metrics"] == finished(events).metrics
    page = (output / "report.html").read_text(encoding="utf-8")
    assert "<svg" in page
    assert "<mark" in page
    assert "http" not in page.replace("http://www.w3.org", "")
    card = (output / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\nlibrary_name: transformers\npipeline_tag: fill-mask\n")
    assert "# my-run" in card
    # The settings of a run are a recipe, too.
    again = load_recipe(output / "config.toml")
    assert again.model.size == "2x24x3"
    assert again.run is not None
    assert again.run.steps == 4
    rerun = run(corpora("bert"), tmp_path / "again", recipe=str(output / "config.toml"), steps=4)
    assert losses(rerun) == losses(events)


def test_the_average_is_what_is_kept(corpora: Corpora, tmp_path: Path) -> None:
    plain, averaged = tmp_path / "plain", tmp_path / "averaged"
    first = run(corpora("bert"), plain, steps=5)
    second = run(corpora("bert"), averaged, "train.ema=0.9", steps=5)
    assert losses(first) == losses(second)
    ours, theirs = (hub.load(path).model.body.embeddings.tokens.weight for path in (plain, averaged))
    assert not torch.equal(ours, theirs)
    assert finished(second).metrics != finished(first).metrics


def test_a_budget_becomes_steps_once(corpora: Corpora, tmp_path: Path) -> None:
    output = tmp_path / "run"
    settings = ("train.evaluation.steps=0", "data.held_out_tokens=0")
    events = run(corpora("bert"), output, *settings, steps=None, budget=0.2)
    assert load_recipe(output / "config.toml").run.steps == finished(events).steps >= 1  # type: ignore[union-attr]
    assert finished(events).metrics == {}


def test_a_budget_runs_from_the_start(corpora: Corpora, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever comes before the first step is part of it."""
    begun: list[float] = []

    def within(seconds: float, per_step: float, **more: Any) -> tuple[int, int]:
        begun.append(seconds)
        return 1, 0

    def slow(*arguments: Any) -> Any:
        time.sleep(0.3)
        return assemble(*arguments)

    monkeypatch.setattr("bertworks.train.course.steps_within", within)
    monkeypatch.setattr("bertworks.train.run.assemble", slow)
    run(corpora("bert"), tmp_path / "run", "data.held_out_tokens=0", steps=None, budget=100.0)
    assert begun[0] < 99.7


# -- stopping and going on ---------------------------------------------------------------------------------------------


def weights(directory: Path) -> dict[str, torch.Tensor]:
    return dict(hub.load(directory).model.named_parameters())


def stop_after(corpus: Path, output: Path, step: int, *settings: str, **more: Any) -> Stopped:
    stop = threading.Event()
    more = {"steps": 6, "recipe": "bert", **more}
    options = RunOptions(corpus=corpus, output=output, settings=(*SMALL, *settings), track=(), **more)
    for event in pretrain(options, stop=stop):
        if isinstance(event, Stepped) and event.report.step == step - 1:
            stop.set()
        if isinstance(event, Stopped):
            return event
    raise AssertionError("it did not stop")


def nothing_is_measured(*arguments: Any, **more: Any) -> None:
    raise AssertionError("a resumed run measured again")


def test_stopped_and_resumed_is_the_same(corpora: Corpora, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With dropout, two phases of sequences, an average and evaluations in between."""
    settings = ("data.sequence_length=32", "data.long_sequence_length=64", "data.long_share=0.5", "train.ema=0.9")
    whole = run(corpora("bert"), tmp_path / "whole", *settings, recipe="bert", steps=6)
    output = tmp_path / "stopped"
    stopped = stop_after(corpora("bert"), output, 2, *settings)
    assert (stopped.step, stopped.total_steps) == (2, 6)
    assert not (output / "metrics.json").exists()
    options = RunOptions(corpus=corpora("bert"), output=output, resume=True, track=())  # nothing else is needed
    monkeypatch.setattr("bertworks.train.run.measure_steps", nothing_is_measured)
    rest = list(pretrain(options))
    plan = next(event.plan for event in rest if isinstance(event, Planned))
    assert plan.first_step == 2
    begun = load_recipe(output / "config.toml").run
    assert begun is not None
    assert plan.batch_tokens == begun.step_tokens
    assert plan.tokens_per_second is not None
    assert losses(rest) == losses(whole)[2:]
    assert finished(rest).metrics == finished(whole).metrics
    ours, theirs = weights(output), weights(tmp_path / "whole")
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert timeless(output) == timeless(tmp_path / "whole")


def test_killed_between_checkpoint_and_line(corpora: Corpora, tmp_path: Path) -> None:
    """The newest checkpoint's line, with an evaluation, was not written any more: the checkpoint knows it."""
    settings = ("train.checkpoint_steps=2", "train.evaluation.steps=4")
    whole = run(corpora("bert"), tmp_path / "whole", *settings, recipe="bert", steps=6)
    output = tmp_path / "killed"
    stop_after(corpora("bert"), output, 4, *settings)
    lines = (output / "metrics.jsonl").read_text().splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["step"] < 4]
    assert "held_out_loss" in lines[-1]
    (output / "metrics.jsonl").write_text("".join(kept) + lines[-1][:20])  # cut off in the middle of a line
    rest = list(pretrain(RunOptions(corpus=corpora("bert"), output=output, resume=True, track=())))
    assert next(event.plan.first_step for event in rest if isinstance(event, Planned)) == 4
    assert losses(rest) == losses(whole)[4:]
    assert timeless(output) == timeless(tmp_path / "whole")
    ours, theirs = weights(output), weights(tmp_path / "whole")
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_a_finished_run_says_so(corpora: Corpora, pretrained: Path) -> None:
    before = (pretrained / "model.safetensors").stat().st_mtime_ns
    events = list(pretrain(RunOptions(corpus=corpora("bert"), output=pretrained, resume=True)))
    assert len(events) == 1
    assert finished(events).already
    assert (pretrained / "model.safetensors").stat().st_mtime_ns == before


def test_resuming_nothing_begins(corpora: Corpora, tmp_path: Path) -> None:
    events = run(corpora("bert"), tmp_path / "run", resume=True, steps=1)
    assert "a new one begins" in next(event.text for event in events if isinstance(event, Note))
    assert isinstance(events[-1], Finished)
    with pytest.raises(UsageError, match=r"there is no run in .*/rnu \(did you mean 'run'\?\)"):
        run(corpora("bert"), tmp_path / "rnu", resume=True, steps=None)


def test_killed_before_the_first_checkpoint(corpora: Corpora, tmp_path: Path) -> None:
    output = tmp_path / "run"
    options = RunOptions(corpus=corpora("bert"), output=output, steps=2, settings=SMALL, track=())
    events = pretrain(options)
    next(event for event in events if isinstance(event, Planned))
    events.close()  # type: ignore[attr-defined]
    rest = list(pretrain(replace(options, resume=True)))
    assert "begins again at step 0" in next(event.text for event in rest if isinstance(event, Note))
    assert finished(rest).steps == 2
    run(corpora("bert"), tmp_path / "whole", steps=2)
    assert timeless(output) == timeless(tmp_path / "whole")  # the untrained model's figures, too


def test_an_unfinished_run_is_no_model_and_says_how_it_becomes_one(corpora: Corpora, tmp_path: Path) -> None:
    output = tmp_path / "run"
    stop_after(corpora("bert"), output, 2)
    words = f"an unfinished pretrain run, step 2 of 6; continue with: bertworks pretrain {corpora('bert')} -o {output}"
    with pytest.raises(CheckpointError, match=re.escape(words)):
        hub.load(output)
    assert how_made(output)["steps"] == 6
    assert how_made(tmp_path) == {}


def test_held_out_text_is_judged_alike_whatever_the_seed(corpora: Corpora, tmp_path: Path) -> None:
    baselines = [finished(run(corpora("bert"), tmp_path / str(seed), steps=1, seed=seed)).baseline for seed in (0, 1)]
    assert baselines[0] == baselines[1]


def test_a_generators_words_are_the_same_whatever_the_seed(corpora: Corpora, tmp_path: Path) -> None:
    """ELECTRA is judged by tokens that are drawn, and they are drawn alike."""
    judged = []
    for seed in (0, 1):
        recipe = replace(load_recipe("electra", SMALL), run=RunSection(corpus="", corpus_sha256="", seed=seed))
        torch.manual_seed(0)
        assembly = assemble(recipe, open_corpus(corpora("bert")), None)
        judged.append(Evaluation(assembly.evaluation, assembly.held_out, Parallel()).run(assembly.module))
    assert judged[0] == judged[1]


def test_resuming_with_other_settings_names_them(corpora: Corpora, tmp_path: Path) -> None:
    output = tmp_path / "run"
    stop_after(corpora("bert"), output, 2)
    options = RunOptions(corpus=corpora("bert"), output=output, resume=True, track=())
    with pytest.raises(UsageError, match=r"train.batch_tokens: 512 -> 1024; run.seed: 0 -> 7|run.seed: 0 -> 7; train"):
        list(pretrain(replace(options, settings=("train.batch_tokens=1024",), seed=7)))
    with pytest.raises(UsageError, match=r"run\.steps: 6 -> 9"):
        list(pretrain(replace(options, steps=9)))
    with pytest.raises(UsageError, match=r"to train a finished model for longer: --from"):
        list(pretrain(replace(options, steps=9)))
    with pytest.raises(UsageError, match=r"was started with the corpus .*/bert, and .*/roberta is another one"):
        list(pretrain(replace(options, corpus=corpora("roberta"))))
    config = output / "config.toml"
    written = config.read_text()
    config.write_text(written.replace("weight_decay = 0.01", "weight_decay = 0.5"))
    with pytest.raises(UsageError, match=r"train.optimizer.weight_decay: 0.01 -> 0.5"):
        list(pretrain(options))
    config.write_text(written)
    events = list(pretrain(replace(options, settings=("train.checkpoint_steps=3",))))  # changes no result
    assert "train.checkpoint_steps: null -> 3" in next(event.text for event in events if isinstance(event, Note))
    assert isinstance(events[-1], Finished)


def test_a_checkpoint_of_an_earlier_version_is_resumed(pretrained: Path) -> None:
    """It does not know settings that have come since, which are at their defaults."""
    asked = load_recipe(pretrained / "config.toml")
    settings = to_dict(asked)
    del settings["data"]["short_prob"], settings["run"]["teacher_sha256"]
    changes_of_checkpoint(settings, replace(asked, data=replace(asked.data, short_prob=0.0)))
    with pytest.raises(UsageError, match=r"\(data\.short_prob: 0\.0 -> 0\.5\)"):
        changes_of_checkpoint(settings, replace(asked, data=replace(asked.data, short_prob=0.5)))
    settings["data"]["long_prob"] = 0.1  # one that is gone
    with pytest.raises(UsageError, match=r"data\.long_prob: 0\.1 -> not set"):
        changes_of_checkpoint(settings, asked)


# -- going on with a model that is there -------------------------------------------------------------------------------


def test_going_on_with_a_model(corpora: Corpora, pretrained: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    events = run(corpora("bert"), output, recipe=None, start=str(pretrained), steps=2)
    section = load_recipe(output / "config.toml").model
    assert (section.family, section.size) == ("bert", "4x24x3")  # what it is
    before, after = weights(pretrained), weights(output)
    assert set(after) == {name for name in before if "nsp" not in name and "pooler" not in name}  # the pair's own
    name = "body.embeddings.tokens.weight"
    assert not torch.equal(before[name], after[name])
    torch.testing.assert_close(before[name], after[name], atol=0.05, rtol=0.0)
    (note,) = [event.text for event in events if isinstance(event, Note)]
    assert note == f"this recipe does not train the nsp head of {pretrained}; the result is without it"
    plan = next(event.plan for event in events if isinstance(event, Planned))
    assert plan.parameters == sum(weight.numel() for weight in after.values())
    assert f"- started from: {pretrained.name}" in (output / "README.md").read_text(encoding="utf-8")


def test_a_missing_head_is_new_and_noted(corpora: Corpora, pretrained: Path, tmp_path: Path) -> None:
    loaded = hub.load(pretrained)
    loaded.model.set_heads([])
    hub.save(loaded.model, loaded.tokenizer, tmp_path / "bare")
    events = run(corpora("bert"), tmp_path / "run", start=str(tmp_path / "bare"), steps=1)
    assert "has no mlm head; a new one is trained" in next(e.text for e in events if isinstance(e, Note))
    assert "mlm" in hub.load(tmp_path / "run").model.heads


def test_going_on_with_electra(corpora: Corpora, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    run(corpora("bert"), first, recipe="electra", steps=1)
    events = run(corpora("bert"), second, recipe="electra", start=str(first), steps=1)
    assert not [event for event in events if isinstance(event, Note)]
    for folder in ("", "generator"):
        assert weights(first / folder).keys() == weights(second / folder).keys()


# -- distillation ------------------------------------------------------------------------------------------------------


def distil(corpus: Path, output: Path, teacher: Path, *settings: str, steps: int = 3) -> list[Any]:
    options = RunOptions(
        command="distill",
        corpus=corpus,
        output=output,
        teacher=str(teacher),
        steps=steps,
        settings=("train.batch_tokens=512", *settings),
        track=(),
    )
    return list(pretrain(options))


def test_distilling_a_masked_lm(corpora: Corpora, pretrained: Path, tmp_path: Path) -> None:
    events = distil(corpora("bert"), tmp_path / "student", pretrained)
    assert set(events[-2].report.losses) == {"soft", "mlm", "cosine"}
    student = hub.load(tmp_path / "student").model
    assert student.num_layers == 2  # half of four
    assert tuple(student.heads) == ("mlm",)


def test_the_teacher_is_judged_too(corpora: Corpora, pretrained: Path, tmp_path: Path) -> None:
    events = distil(corpora("bert"), tmp_path / "student", pretrained, "model.size=9x24x3")
    assert "(9x24x3) is larger than its teacher (4x24x3)" in next(e.text for e in events if isinstance(e, Note))
    planned = next(event for event in events if isinstance(event, Planned))
    assert planned.teacher.keys() == {"loss", "mlm_perplexity", "mlm_accuracy"}
    assert 0 <= planned.teacher["mlm_accuracy"] <= 1


@pytest.mark.parametrize("head", [True, False])
def test_another_teacher_is_noticed(head: bool, corpora: Corpora, pretrained: Path, tmp_path: Path) -> None:
    """The directory is the same; what is in it was trained anew."""
    loaded, teacher = hub.load(pretrained), tmp_path / "teacher"
    model = copy.deepcopy(loaded.model)
    if not head:
        model.set_heads([])
    hub.save(model, loaded.tokenizer, teacher)
    output = tmp_path / "student"
    given = {"command": "distill", "recipe": None, "teacher": str(teacher)}
    stop_after(corpora("bert"), output, 2, "model.size=2x24x3", **given)
    section = load_recipe(output / "config.toml").run
    assert section is not None
    assert section.teacher_sha256 == weights_sha256(model)
    with torch.no_grad():
        model.body.embeddings.tokens.weight[7, 3] += 1e-3
    hub.save(model, loaded.tokenizer, teacher)
    resumed = RunOptions(command="distill", corpus=corpora("bert"), output=output, resume=True, track=())
    was, now = section.teacher_sha256, weights_sha256(model)
    hashes = f"their SHA-256 was {was[:12]}…, and is {now[:12]}…"
    words = f"the teacher {teacher} has other weights than when the run began: {hashes}"
    with pytest.raises(UsageError, match=re.escape(words)):
        list(pretrain(resumed))
    with torch.no_grad():
        model.body.embeddings.tokens.weight.copy_(loaded.model.body.embeddings.tokens.weight)
    hub.save(model, loaded.tokenizer, teacher, dtype=torch.float32)  # as it was, in new files
    assert finished(list(pretrain(resumed))).steps == 6


def test_distilling_to_another_width(corpora: Corpora, pretrained: Path, tmp_path: Path) -> None:
    events = distil(corpora("bert"), tmp_path / "student", pretrained, "model.size=1x16x2")
    assert "not compared" in next(event.text for event in events if isinstance(event, Note))
    assert set(events[-2].report.losses) == {"soft", "mlm"}
    assert hub.load(tmp_path / "student").model.hidden_size == 16


@pytest.mark.parametrize("size", ["half", "1x16x2"])
def test_distilling_an_embedding_model(size: str, corpora: Corpora, pretrained: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    loaded = hub.load(pretrained)
    loaded.model.set_heads([])
    settings = SentenceSettings(pooling="mean", normalize=True, max_seq_length=64)
    hub.save(loaded.model, loaded.tokenizer, tmp_path / "teacher", settings=settings)
    events = distil(corpora("bert"), tmp_path / "student", tmp_path / "teacher", f"model.size={size}")
    assert set(events[-2].report.losses) == {"hidden", "sentence"}
    assert finished(events).metrics["sentence_cosine"] == pytest.approx(
        1 - finished(events).metrics["sentence_loss"], abs=1e-6
    )
    assert "library_name: sentence-transformers" in (tmp_path / "student" / "README.md").read_text()
    student = bertworks.load(tmp_path / "student")
    assert student.window == 64
    texts = ["The river runs.", "Seventeen geese walked to the market."]
    theirs = SentenceTransformer(str(tmp_path / "student"), device="cpu").encode(texts)
    np.testing.assert_allclose(student.embed(texts), theirs, atol=1e-5)


# -- bad input ---------------------------------------------------------------------------------------------------------


def test_bad_input_is_told_before_any_work(corpora: Corpora, pretrained: Path, tmp_path: Path) -> None:
    corpus, output = corpora("bert"), tmp_path / "run"
    cases: list[tuple[dict[str, Any], tuple[str, ...], type[BertworksError], str]] = [
        ({"steps": None}, (), UsageError, "how long to train"),
        ({"budget": 9.0}, (), UsageError, "--budget or --steps, not both"),
        ({"recipe": "modrn"}, (), UsageError, "did you mean 'modern'"),
        ({}, ("data.sequence_length=513",), UsageError, "data.sequence_length is 513, but the model has only 512"),
        ({}, ("data.sequence_lenght=64",), BertworksError, "did you mean 'sequence_length'"),
        ({}, ("model.size=huge",), BertworksError, "model.size is 'huge'; allowed: tiny"),
        ({}, ("model.size=2x30x4",), BertworksError, "30 is not a multiple of the 4 attention heads"),
        ({}, ("model.family=brt",), BertworksError, "did you mean 'bert'"),
        ({}, ("train.batch_tokens=20",), UsageError, "batch_tokens is 20, but one sequence has"),
        ({}, ("objective.pairs=nsp",), BertworksError, "'modernbert' has no head for 'nsp'"),
        ({}, ("objective.masking.unit=lexicon",), BertworksError, "needs objective.lexicon"),
        ({"recipe": "gpt", "start": str(pretrained)}, (), BertworksError, "'bert' has no head for 'lm'"),
        ({"start": str(pretrained)}, ("model.size=tiny",), UsageError, "--size and --from exclude each other"),
        ({"corpus": pretrained / "README.md"}, (), DataError, "bertworks corpus build"),
        ({"device": "cuda:77"}, (), UsageError, "device"),
        ({}, ("train.optimizer.learning_rate=-1",), BertworksError, "train.optimizer.learning_rate is -1; allowed"),
        ({}, ("objective.masking.rate=1.5",), BertworksError, "objective.masking.rate must be between 0 and 1"),
        ({}, ("batch_tokens=100",), BertworksError, "its full name is train.batch_tokens"),
        ({"start": str(tmp_path / "nothing")}, (), BertworksError, "nothing"),
        ({"corpus": corpora("roberta"), "start": str(pretrained)}, (), UsageError, "another vocabulary"),
        ({"corpus": corpora("gpt2")}, (), BertworksError, "no mask token"),
        ({"corpus": tmp_path / "none"}, (), DataError, "no such directory"),
        ({"track": ("tensorbord",)}, (), UsageError, "did you mean 'tensorboard'"),
        ({"command": "distill"}, (), UsageError, "--teacher MODEL"),
        ({"command": "distill", "teacher": "x", "recipe": "bert"}, (), UsageError, "nothing would be learnt from the"),
        ({"resume": True, "overwrite": True}, (), UsageError, "exclude each other"),
    ]
    for changes, settings, kind, words in cases:
        given = {"corpus": corpus, **changes}
        with pytest.raises(kind) as caught:
            run(given.pop("corpus"), output, *settings, **{"steps": 3, **given})
        assert words in str(caught.value), f"{changes} {settings}: {caught.value}"
        assert "modern.toml" not in str(caught.value)  # it is not the recipe's fault
        assert not output.exists()


def test_a_resumed_run_keeps_the_shape_that_it_went_on_with(corpora: Corpora, pretrained: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    run(corpora("bert"), output, recipe=None, start=str(pretrained), steps=1)
    options = RunOptions(corpus=corpora("bert"), output=output, resume=True, settings=("model.size=tiny",), track=())
    with pytest.raises(UsageError, match="--size and --from exclude each other"):
        list(pretrain(options))


def test_what_a_run_starts_from_is_not_deleted(corpora: Corpora, pretrained: Path, tmp_path: Path) -> None:
    for given in ({"start": str(pretrained)}, {"command": "distill", "teacher": str(pretrained)}):
        with pytest.raises(OutputError, match="which the run is to read"):
            run(corpora("bert"), pretrained, recipe=None, overwrite=True, **given)
    assert hub.load(pretrained)


def test_the_output_is_never_overwritten_silently(corpora: Corpora, tmp_path: Path) -> None:
    output = tmp_path / "run"
    output.mkdir()
    (output / "letter.txt").write_text("dear")
    with pytest.raises(OutputError, match="not empty and holds no run"):
        run(corpora("bert"), output)
    (output / "letter.txt").unlink()
    (output / "config.toml.tmp").write_text("[mod")  # a run was killed as it began
    run(corpora("bert"), output, steps=1)
    with pytest.raises(OutputError, match=r"which is finished; choose another directory or --overwrite"):
        run(corpora("bert"), output, steps=1)
    assert finished(run(corpora("bert"), output, steps=2, overwrite=True)).steps == 2
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(OutputError, match="is a file"):
        run(corpora("bert"), file)


def test_another_tokenizer_than_the_recipes_is_noted(corpora: Corpora, tmp_path: Path) -> None:
    events = run(corpora("bert"), tmp_path / "run", "data.sequence_length=64", recipe="roberta", steps=1)
    assert "made for byte-bpe" in next(event.text for event in events if isinstance(event, Note))


def test_pairs_of_few_documents(tmp_path: Path) -> None:
    """Pairs are held out too where there are documents enough; with three of them the masked tokens alone are judged."""
    few = make_corpus(tmp_path, "bert", documents=5)
    assert "nsp_accuracy" in finished(run(few, tmp_path / "five", recipe="bert", steps=1)).metrics
    (tmp_path / "three").mkdir()
    events = run(make_corpus(tmp_path / "three", "bert", documents=3), tmp_path / "run", recipe="bert", steps=1)
    assert "only the masked tokens are evaluated" in next(e.text for e in events if isinstance(e, Note))
    assert "nsp_accuracy" not in finished(events).metrics
    (tmp_path / "one").mkdir()
    with pytest.raises(DataError, match=r"at least two documents, and there is one; .*objective\.pairs=none"):
        run(make_corpus(tmp_path / "one", "bert", documents=1), tmp_path / "none", recipe="bert", steps=1)


def test_guessing_by_frequency_by_hand() -> None:
    """Three tokens seen 6, 1 and 1 times: probabilities 7/11, 2/11 and 2/11, and the answer is always the first."""
    evaluation = Evaluation(SimpleNamespace(weights={"mlm": 1.0}), None, Parallel())  # type: ignore[arg-type]
    evaluation.batches = [SimpleNamespace(tensors={"targets": torch.tensor(t)}) for t in ([0, 0], [1])]  # type: ignore[misc]
    found = evaluation.by_frequency(np.array([6, 1, 1]))
    assert found["accuracy"] == pytest.approx(2 / 3)
    assert found["loss"] == pytest.approx(-(2 * np.log(7 / 11) + np.log(2 / 11)) / 3)


def test_the_baseline_of_a_run(corpora: Corpora, tmp_path: Path) -> None:
    corpus = Corpus.open(corpora("bert"))
    assert token_counts(corpus, np.arange(corpus.num_documents)).sum() == corpus.num_tokens
    planned = next(e for e in run(corpora("bert"), tmp_path / "run", steps=1) if isinstance(e, Planned))
    assert 0 <= planned.baseline["accuracy"] < 0.5
    assert 0 < planned.baseline["loss"] < np.log(corpus.vocab_size)
    kept = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert kept["baseline"] == planned.baseline
