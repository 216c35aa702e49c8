"""The end of a run: its directory becomes a model that others can open, with what they need to judge it.

    model.safetensors, config.json, tokenizer …   by `bertworks.hub.save`; ELECTRA's generator in generator/
    metrics.json   report.html   README.md        figures, curves, model card

`metrics.json` is written last: a directory that has it is finished.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertworks import hub
from bertworks.atomic import write_text
from bertworks.config import to_dict
from bertworks.data.corpus import Corpus
from bertworks.hub.checkpoint import OWN
from bertworks.hub.files import writing
from bertworks.models.recurrent import RecurrentStack
from bertworks.train import reach, samples
from bertworks.train.assemble import Assembly
from bertworks.train.directory import CARD, METRICS, REPORT
from bertworks.train.figures import shown, words
from bertworks.train.log import HELD_OUT, read_metrics
from bertworks.train.recipes import Recipe
from bertworks.train.report import Summary, model_card, report
from bertworks.train.start import GENERATOR


def finish(
    recipe: Recipe,
    corpus: Corpus,
    assembly: Assembly,
    output: Path,
    *,
    steps: int,
    kept: int,
    baseline: Mapping[str, float],
) -> dict[str, Any]:
    """Write everything; `assembly` holds the weights to keep, those of step `kept`. Returns the content of
    `metrics.json`."""
    run = recipe.run
    assert run is not None
    assembly.module.eval()
    for folder, model in assembly.models.items():
        hub.save(model, assembly.tokenizer, output / folder, settings=None if folder else assembly.settings)
    lines = read_metrics(output)
    seconds = max((line.get("seconds", 0.0) for line in lines), default=0.0)
    tokens = max((line.get("tokens", 0) for line in lines), default=0)
    result = {
        "task": recipe.objective.kind,
        "metrics": held_out_figures(lines, kept),
        "baseline": dict(baseline),
        "seeds": [run.seed],
        "data": run.corpus,
        "model": assembly.describe(),
        "seconds": seconds,
        "steps": steps,
        "tokens": tokens,
    }
    reaches = _reaches(corpus, assembly, run.seed)
    if reaches:
        result["gradient_reach"] = {name: norms.tolist() for name, norms in reaches.items()}
    summary = _summary(recipe, corpus, assembly, output, result, lines, reaches)
    with writing(output):
        write_text(output / REPORT, report(summary))
        write_text(output / CARD, model_card(summary))
        write_text(output / METRICS, json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    return result


def held_out_figures(lines: list[dict[str, Any]], kept: int) -> dict[str, float]:
    """The evaluation of the weights that are kept: that of step `kept`, or the last one before it."""
    found = [
        {name.removeprefix(HELD_OUT): value for name, value in line.items() if name.startswith(HELD_OUT)}
        for line in lines
        if any(name.startswith(HELD_OUT) for name in line) and 0 < line["step"] <= kept
    ]
    return found[-1] if found else {}


def _summary(
    recipe: Recipe,
    corpus: Corpus,
    assembly: Assembly,
    output: Path,
    result: Mapping[str, Any],
    lines: list[dict[str, Any]],
    reaches: Mapping[str, reach.Floats],
) -> Summary:
    metrics: Mapping[str, float] = result["metrics"]
    parameters = sum(parameter.numel() for parameter in assembly.models[""].parameters())
    minutes = result["seconds"] / 60
    numbers = [
        (f"{parameters / 1e6:.1f} M", "parameters"),
        (f"{result['steps']:,}", "steps"),
        (f"{result['tokens'] / 1e6:.2f} M" if result["tokens"] >= 1e5 else f"{result['tokens']:,}", "tokens read"),
        (f"{minutes:.1f} min" if minutes >= 1 else f"{result['seconds']:.0f} s", "time"),
    ]
    numbers += [(shown(name, value), words(name)) for name, value in metrics.items() if "accuracy" in name][:2]
    title, filled = _samples(recipe.objective.kind, corpus, assembly)
    return Summary(
        name=output.resolve().name,
        about=f"{recipe.about or recipe.objective.kind}. Trained with Bertworks: {assembly.describe()}.",
        task=recipe.objective.kind,
        numbers=numbers,
        metrics=metrics,
        baseline=result["baseline"],
        data=[
            *_sources(recipe),
            ("corpus", Path(str(result["data"])).name),
            ("documents", f"{corpus.num_documents:,}"),
            ("tokens", f"{corpus.num_tokens:,}, {assembly.held_out_tokens:,} of them held out"),
            ("vocabulary", f"{corpus.vocab_size:,} tokens"),
        ],
        settings=to_dict(recipe),
        lines=lines,
        samples=filled,
        samples_title=title,
        embeddings=assembly.settings is not None,
        mask=assembly.tokenizer.specials.mask if "mlm" in assembly.models[""].heads else None,
        own_format=assembly.model.config.family == OWN,
        reach=reach.figure(reaches) if reaches else "",
    )


def _sources(recipe: Recipe) -> list[tuple[str, str]]:
    """The models that the run began with."""
    run = recipe.run
    assert run is not None
    found = (("started from", run.start), ("teacher", run.teacher))
    return [(what, Path(name).name) for what, name in found if name is not None]


def _reaches(corpus: Corpus, assembly: Assembly, seed: int) -> dict[str, reach.Floats]:
    """How far the gradient reaches back in a recurrent language model, before and after the training."""
    model = assembly.model
    if not isinstance(model.body, RecurrentStack):
        return {}
    texts = reach.texts_of(corpus.document(int(index)) for index in assembly.held_out_documents)
    if not len(texts):
        return {}
    start = reach.untrained(model, seed).to(model.body.embeddings.tokens.weight.device)
    return {"trained": reach.gradient_reach(model, texts), "untrained": reach.gradient_reach(start, texts)}


def _samples(kind: str, corpus: Corpus, assembly: Assembly) -> tuple[str, list[samples.Sample]]:
    """What the model says of held-out text, where there is some."""
    models, tokenizer = assembly.models, assembly.tokenizer
    documents = (corpus.document(int(index)) for index in assembly.held_out_documents)
    if kind == "causal_lm":
        return "Held-out texts, continued", samples.continued(models[""], tokenizer, documents)
    if kind == "replaced_tokens":
        title = "Held-out texts with the generator's words; orange where the discriminator is wrong"
        return title, samples.detected(models[GENERATOR], models[""], tokenizer, documents)
    if "mlm" in models[""].heads:
        return (
            "Masks filled in held-out texts; orange where wrong, with the text's own word in brackets",
            samples.filled(models[""], tokenizer, documents),
        )
    return "", []
