"""The page in an exported directory: a program of a few lines, in ONNX Runtime, `tokenizers` and numpy alone.

The tests run the program of every task and compare what it computes with what Bertworks says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TITLES = {
    "embed": "one vector per text",
    "classify": "labels of texts",
    "pair": "labels of pairs of texts",
    "regress": "a number per text",
    "choice": "the best of several options",
    "tag": "a tag per token",
    "qa": "answers within a text",
    "fill": "what stands behind a mask",
}

START = """\
import numpy as np
import onnxruntime
from tokenizers import Tokenizer

session = onnxruntime.InferenceSession("model.onnx")
tokenizer = Tokenizer.from_file("tokenizer.json")
tokenizer.enable_truncation({truncation})
tokenizer.enable_padding(pad_id={pad_id}, pad_token={pad_token!r})


def run(rows):
    encodings = tokenizer.encode_batch(rows)
    inputs = {{
        "input_ids": np.array([encoding.ids for encoding in encodings]),
        "attention_mask": np.array([encoding.attention_mask for encoding in encodings]),{segments}
    }}
    return encodings, session.run(None, inputs)
"""
SEGMENTS = """
        "token_type_ids": np.array([encoding.type_ids for encoding in encodings]),"""

EMBED = """\
_, (embeddings,) = run(["A man is eating food.", "Someone has a meal.", "The sky is blue."])
lengths = np.linalg.norm(embeddings, axis=1, keepdims=True)
cosines = (embeddings / lengths) @ (embeddings / lengths).T
print(cosines.round(2))
"""
SOFTMAX = """\
_, (logits,) = run({rows})
powers = np.exp((logits - logits.max({axis}keepdims=True)) / {temperature})
probabilities = powers / powers.sum({axis}keepdims=True)
"""
CLASSIFY = """\
labels = {labels}
{softmax}for row in probabilities:
    print(labels[row.argmax()], row.max())
"""
MULTI_LABEL = """\
labels = {labels}
thresholds = np.array({thresholds})
_, (logits,) = run({rows})
probabilities = 1 / (1 + np.exp(-logits))
for row in probabilities:
    print([label for label, applies in zip(labels, row >= thresholds) if applies])
"""
REGRESS = """\
_, (logits,) = run({rows})
values = {values}
print(values)
"""
CHOICE = """\
text, options = "She opened the door and", ["walked in.", "the moon is made of cheese."]
{softmax}print(options[probabilities.argmax()], probabilities.max())
"""
TAG = """\
labels = {labels}
text = "Ada Lovelace lived in London."
encodings, (logits,) = run([text])
for (start, end), special, scores in zip(encodings[0].offsets, encodings[0].special_tokens_mask, logits[0]):
    if not special:
        print(text[start:end], labels[scores.argmax()])
"""
QA = """\
question, context = "Who walked home?", "It was late, and Ada walked home."
encodings, (start_logits, end_logits) = run([(question, context)])
inside = [place for place, sequence in enumerate(encodings[0].sequence_ids) if sequence == 1]
first, last = max(
    ((first, last) for first in inside for last in inside if first <= last < first + 30),
    key=lambda span: start_logits[0, span[0]] + end_logits[0, span[1]],
)
answer = context[encodings[0].offsets[first][0] : encodings[0].offsets[last][1]]
print(answer)
"""
FILL = """\
encodings, (logits,) = run(["Paris is the {mask} of France."])
place = encodings[0].tokens.index({mask!r})
for token in np.argsort(-logits[0, place])[:5]:
    print(tokenizer.id_to_token(int(token)), logits[0, place, token])
"""

PAGE = """\
# {title}

Written by `bertworks export`. `model.onnx` is a graph for ONNX Runtime ({precision}), `tokenizer.json` its tokenizer, and
`export.json` holds what the program below has copied: {copied}.

```sh
pip install onnxruntime tokenizers numpy
```

```python
{program}```

| | |
|---|---|
| inputs | {inputs}: whole numbers (int64), batch × length; padding stands to the right, with 0 in the mask |
| outputs | {outputs} |
| longest input | {window} tokens, special ones included; longer texts are cut by the program above |

{remarks}"""

OUTPUTS = {
    "embed": "`embedding`, batch × {width}",
    "classify": "`logits`, batch × {labels}",
    "pair": "`logits`, batch × {labels}",
    "regress": "`logits`, batch × 1",
    "choice": "`logits`, batch × 1: a score for each pair of a text and an option",
    "tag": "`logits`, batch × length × {labels}",
    "qa": "`start_logits` and `end_logits`, batch × length",
    "fill": "`logits`, batch × length × vocabulary",
}


def readme(about: Mapping[str, Any]) -> str:
    """The page for what `export.json` says."""
    task = about["task"]
    labels = about.get("labels") or []
    remarks = [f"Compared with PyTorch before it was written: the largest difference was {about['difference']:.1e}."]
    if task == "embed":
        scaled = ", then scaled to length 1" if about["normalize"] else ""
        remarks.append(f"Pooling is part of the graph: {about['pooling']}{scaled}.")
    if task in ("classify", "regress"):
        remarks.append("A row may also be a pair of texts, as a tuple, where the model was trained on pairs.")
    if about["precision"] == "int8":
        remarks.append(_int8(about.get("loss")))
    return PAGE.format(
        title=TITLES[task].capitalize(),
        precision="8-bit products" if about["precision"] == "int8" else "32-bit floating point",
        copied="the window, the padding" + (", the labels" if labels else ""),
        program=program(about),
        inputs=", ".join(f"`{name}`" for name in about["inputs"]),
        outputs=OUTPUTS[task].format(width=about.get("width"), labels=len(labels)),
        window=about["window"],
        remarks="\n".join(remarks) + "\n",
    )


def program(about: Mapping[str, Any]) -> str:
    """The program alone."""
    truncation = f"max_length={about['window']}" + (', strategy="only_second"' if about["task"] == "qa" else "")
    start = START.format(
        truncation=truncation,
        pad_id=about["pad_id"],
        pad_token=about["pad_token"],
        segments=SEGMENTS if "token_type_ids" in about["inputs"] else "",
    )
    return f"{start}\n\n{_use(about)}"


def _use(about: Mapping[str, Any]) -> str:
    task, labels, decision = about["task"], about.get("labels"), about.get("decision", {})
    texts = '["A wonderful film.", "Two hours that I will not get back."]'
    pairs = '[("A man is eating.", "Someone has a meal."), ("The sky is blue.", "It rains.")]'
    rows = pairs if task == "pair" else texts
    temperature = decision.get("temperature", 1.0)
    if task == "embed":
        return EMBED
    if task == "fill":
        return FILL.format(mask=about["mask_token"])
    if task == "tag":
        return TAG.format(labels=labels)
    if task == "qa":
        return QA
    if task == "choice":
        rows = "[(text, option) for option in options]"
        return CHOICE.format(softmax=SOFTMAX.format(rows=rows, axis="", temperature=temperature))
    if task == "regress":
        return REGRESS.format(
            rows=rows, values="np.exp(logits[:, 0])" if about.get("distribution") == "poisson" else "logits[:, 0]"
        )
    if about["multi_label"]:
        return MULTI_LABEL.format(labels=labels, thresholds=decision.get("thresholds", 0.5), rows=rows)
    return CLASSIFY.format(labels=labels, softmax=SOFTMAX.format(rows=rows, axis="axis=1, ", temperature=temperature))


def _int8(measured: Mapping[str, Any] | None) -> str:
    text = (
        "Each token's activations are divided by the largest of them, then those of the whole batch are rounded on one "
        "scale: a result may differ a little from batch to batch."
    )
    if measured is None:
        return f"{text} What 8 bits cost was not measured."
    found = []
    if measured["metric"] is not None:
        found.append(f"{measured['metric']} {measured['fp32']:.4f} -> {measured['int8']:.4f}")
    if measured["worst_cosine"] is not None:
        found.append(f"worst cosine to the full precision {measured['worst_cosine']:.4f}")
    return f"{text} On {measured['rows']:,} rows: {', '.join(found)}."
