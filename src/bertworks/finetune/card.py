"""The model card of a fine-tuned model: `README.md` with the header that the Hugging Face Hub reads (Mitchell et al. 2019)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bertworks.data.labelled.examples import (
    ChoiceExample,
    Example,
    QuestionExample,
    SimilarityExample,
    TaggedExample,
    TextExample,
)
from bertworks.errors import first_few
from bertworks.finetune.baseline import TITLES
from bertworks.finetune.report import about, flat, headline, warning, with_spread
from bertworks.finetune.result import Result
from bertworks.hub.families import FAMILIES
from bertworks.train.figures import full, shown, words

PIPELINES = {
    "classify": "text-classification",
    "pair": "text-classification",
    "regress": "text-classification",
    "choice": "multiple-choice",
    "tag": "token-classification",
    "qa": "question-answering",
    "similarity": "sentence-similarity",
}
AUTO_CLASSES = {
    "choice": "AutoModelForMultipleChoice",
    "tag": "AutoModelForTokenClassification",
    "qa": "AutoModelForQuestionAnswering",
}
IMPORTANT = ("epochs", "batch_size", "learning_rate", "max_length", "lora_rank", "freeze_layers")
IMPORTANT_FROZEN = ("max_length", "reads")
MAX_LABELS = 40
LONGEST = 120
REST = (
    "Figures for machines are in `metrics.json`, every prediction on the development examples in `predictions.jsonl`, "
    "curves, calibration and errors in `report.html`, all settings in `config.toml`."
)


def model_card(result: Result) -> str:
    """The text of README.md."""
    lines = [
        *_header(result),
        "",
        f"# {result.name}",
        "",
        about(result),
        "",
        *(f"- {name}: {value}" for value, name in headline(result)),
        *_labels(result),
        "",
        "## Results",
        "",
        *_results(result),
        "",
        "## Use",
        "",
        "```python",
        *_use(result),
        "```",
        "",
        *_elsewhere(result),
        "## Data",
        "",
        *(f"- {sentence}" for sentence in result.understood or [result.data]),
        "",
        "## Training",
        "",
        *_training(result),
        "",
        "## Limits",
        "",
        *_limits(result),
        "",
        REST,
    ]
    return "\n".join(lines) + "\n"


def _header(result: Result) -> list[str]:
    library = "sentence-transformers" if result.task.name == "similarity" else "transformers"
    if _is_own(result):
        library = "bertworks"
    lines = ["---", f"library_name: {library}", f"pipeline_tag: {PIPELINES[result.task.name]}"]
    if "/" in result.model and not Path(result.model).exists():  # an id on the Hub
        lines.append(f"base_model: {result.model}")
    lines += ["tags:", "- bertworks"]
    if result.figures:
        lines += ["metrics:", *(f"- {name}" for name in result.figures)]
    return [*lines, "---"]


def _is_own(result: Result) -> bool:
    """Whether the directory is in our own format, which only Bertworks opens."""
    return result.described.partition(" ")[0] not in FAMILIES


def _labels(result: Result) -> list[str]:
    labels = result.task.labels
    return [f"- labels: {first_few(labels, MAX_LABELS)}"] if labels else []


def _results(result: Result) -> list[str]:
    if not result.figures:
        return ["None: there were no development examples to judge by."]
    columns = ["this model", *(["on the test file"] if result.test else [])]
    columns += [TITLES.get(name, name) for name in result.baseline]
    lines = [f"| on the development examples | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    for name in result.figures:
        cells = [with_spread(name, result.figures, result.spread)]
        if result.test:
            cells.append(with_spread(name, result.test, result.test_spread) if name in result.test else "–")
        cells += [shown(name, figures[name]) if name in figures else "–" for figures in result.baseline.values()]
        lines.append(f"| {full(name)} | {' | '.join(cells)} |")
    if any("threshold" in name for name in result.decision):
        lines += [
            "",
            "Thresholds were chosen for the best F1 on these very examples, so their F1 is a little too high.",
        ]
    if result.spread:
        lines += ["", f"Means over {len(result.runs)} seeds, ± the standard deviation between them."]
    return lines


def _use(result: Result) -> list[str]:
    place = json.dumps(result.name, ensure_ascii=False)
    if result.task.name == "similarity":
        return ["import bertworks", "", f'vectors = bertworks.load({place}).embed(["A text.", "Another one."])']
    row = _row(result.examples[0]) if result.examples else "A text."
    shown_row = json.dumps(row, ensure_ascii=False) if not isinstance(row, tuple) else _tuple(row)
    return ["import bertworks", "", f"print(bertworks.load({place}).predict({shown_row}))"]


def _tuple(row: tuple[str, ...]) -> str:
    return f"({', '.join(json.dumps(part, ensure_ascii=False) for part in row)})"


def _row(example: Example) -> Any:
    """An example as `predict` takes it, its texts shortened."""
    if isinstance(example, TextExample):
        return _short(example.text) if example.pair is None else (_short(example.text), _short(example.pair))
    if isinstance(example, TaggedExample):
        return _short(example.text or " ".join(example.words))
    if isinstance(example, QuestionExample):
        return (_short(example.question), _short(example.context))
    if isinstance(example, ChoiceExample):
        return {"text": _short(example.text), "options": [_short(option) for option in example.options]}
    assert isinstance(example, SimilarityExample)
    return tuple(_short(text) for text in example.texts[:2])


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST].rsplit(" ", 1)[0]


def _elsewhere(result: Result) -> list[str]:
    """How others open it."""
    if _is_own(result):
        return ["It is in the format of Bertworks; `transformers` has no such head.", ""]
    if result.task.name == "similarity":
        return ["`sentence_transformers.SentenceTransformer` opens it as well, with the same vectors.", ""]
    name = AUTO_CLASSES.get(result.task.name, "AutoModelForSequenceClassification")
    note = ""
    if result.task.settings().get("distribution") == "poisson":
        note = " Its output is the logarithm of the rate."
    elif result.task.name == "tag":
        note = ' Its pipeline needs `aggregation_strategy="first"`: the first token of a word has the word\'s tag.'
    elif result.decision:
        said = " and ".join(words(name) for name in result.decision)
        note = f" What is decided by them here ({said}) is in `bertworks.json`."
    return [f"`transformers.{name}` opens it as well, with the same outputs.{note}", ""]


def _training(result: Result) -> list[str]:
    frozen = result.runs[result.kept].frozen
    important = IMPORTANT_FROZEN if frozen else IMPORTANT
    chosen = [
        (name, value)
        for name, value in flat(result.settings)
        if name.rpartition(".")[2] in important and (name, value) != ("method.lora_rank", "0")
    ]
    lines = [f"- {words(name.rpartition('.')[2])}: {value}" for name, value in chosen]
    if frozen:
        lines.append(f"- folds: {len(frozen['folds'])}")  # there may have been too few examples for all of them
    lines.append(f"- seeds: {', '.join(str(run.seed) for run in result.runs)}")
    if len(result.runs) > 1:
        lines[-1] += f"; the saved model is that of seed {result.runs[result.kept].seed}"
    return lines


def _limits(result: Result) -> list[str]:
    told = warning(result)
    scope = (
        f"- It has learnt from {result.num_train:,} examples of one kind of text, and was judged by {result.num_dev:,} of "
        "the same kind; on other texts it may do worse."
    )
    return [*([f"- {told}"] if told else []), scope]
