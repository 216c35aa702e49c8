"""The end of a translation run: its directory becomes a model, with what others need to judge it.

    model.safetensors, config.json, tokenizer …   the model
    predictions.jsonl                             every development sentence, its translation and its reference
    metrics.json   report.html   README.md        figures, curves and examples, model card

`metrics.json` is written last: a directory that has it is finished.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import nn

from bertworks.atomic import write_text
from bertworks.config import to_dict
from bertworks.hub.checkpoint import OWN, save_model
from bertworks.hub.files import writing
from bertworks.infer.translate import Translator
from bertworks.tasks.metrics.bleu import SIGNATURE
from bertworks.text.tokenizer import Tokenizer
from bertworks.train.directory import CARD, METRICS, REPORT
from bertworks.train.evaluate import Evaluation
from bertworks.train.log import read_metrics
from bertworks.train.state import Best
from bertworks.translate.assemble import RunData, describe
from bertworks.translate.config import TranslationConfig
from bertworks.translate.evaluate import Judged, judged
from bertworks.translate.report import Summary, model_card, report

PREDICTIONS = "predictions.jsonl"


def finish(
    config: TranslationConfig,
    data: RunData,
    tokenizer: Tokenizer,
    module: nn.Module,
    output: Path,
    *,
    losses: Evaluation,
    steps: int,
    best: Best | None,
) -> dict[str, Any]:
    """Write everything; `module` holds the weights to keep. Returns the content of `metrics.json`."""
    module.eval()
    tokenizer.save(output)
    save_model(module, output)
    translator = Translator(module, tokenizer, device=next(module.parameters()).device)
    dev = judged(translator, data.dev, config.search)
    test = None if data.test is None else judged(translator, data.test, config.search)
    lines = read_metrics(output)
    assert config.run is not None
    result = {
        "task": "translate",
        "metrics": {**losses.run(module), **dev.figures},
        **({"test": dict(test.figures)} if test is not None else {}),
        "bleu_signature": SIGNATURE,
        "seeds": [config.run.seed],
        "data": " and ".join(config.run.train),
        "model": describe(config.model),
        "seconds": max((line.get("seconds", 0.0) for line in lines), default=0.0),
        "steps": steps,
        "best_step": best.step if best is not None and config.train.evaluation.keep == "best" else None,
        "tokens": max((line.get("tokens", 0) for line in lines), default=0),
    }
    summary = Summary(
        name=output.resolve().name,
        about=f"{describe(config.model)}, trained with Bertworks on {len(data.train):,} pairs.",
        parameters=sum(parameter.numel() for parameter in module.parameters()),
        result=result,
        understood=data.understood,
        vocab_size=tokenizer.vocab_size,
        settings=to_dict(config),
        lines=lines,
        dev=dev,
        alignments=_alignments(translator, dev),
        own_format=getattr(module.config, "family", OWN) == OWN,
    )
    with writing(output):
        write_text(output / PREDICTIONS, _predictions(dev))
        write_text(output / REPORT, report(summary))
        write_text(output / CARD, model_card(summary))
        write_text(output / METRICS, json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    return result


def _predictions(judged: Judged) -> str:
    rows = zip(judged.text.sources, judged.translations, judged.text.targets, strict=True)
    return "".join(
        json.dumps(
            {
                "index": number,
                "source": source,
                "translation": translation.text,
                "reference": reference,
                "score": round(translation.score, 4),
            },
            ensure_ascii=False,
        )
        + "\n"
        for number, (source, translation, reference) in enumerate(rows)
    )


def _alignments(translator: Translator, dev: Judged) -> list[Any]:
    """Pictures of two sentences of a size that can be looked at."""
    pairs = zip(dev.text.sources, dev.translations, strict=True)
    rows = [(source, each) for source, each in pairs if each.num_parts == 1 and translator.fits(source, each.text)]
    fitting = [(source, each.text) for source, each in rows if 5 <= len(source.split()) <= 14 and each.text]
    chosen = (fitting or [(source, each.text) for source, each in rows if each.text])[:2]
    return [translator.align(source, text) for source, text in chosen]
