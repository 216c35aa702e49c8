"""Pictures of alignments: where the decoder looked for each word that it wrote (Bahdanau et al. 2014, figure 3).

The page stands alone (`bertworks.page`): darker is more attention, a row sums to 1. Of a Transformer the heads' mean in the
last layer but one is shown large, which aligns best, and every layer and head behind a line that opens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from bertworks.infer.translate import AlignmentMatrix
from bertworks.page import document, folded, section, soft, weights_map


def picture(alignment: AlignmentMatrix) -> str:
    """One sentence's map."""
    return weights_map(alignment.target, alignment.source, alignment.picture.tolist())


def alignment_page(title: str, alignments: Mapping[int, AlignmentMatrix]) -> str:
    """A page with all maps, by the number of the text."""
    return document(
        f"Alignment: {title}",
        f"<h1>{escape(title)}</h1>",
        soft("Across: the source. Down: the translation. Darker: more attention while that word was written."),
        *(_sentence(number, alignment) for number, alignment in alignments.items()),
    )


def _sentence(number: int, alignment: AlignmentMatrix) -> str:
    layers, heads = alignment.weights.shape[:2]
    texts = zip(("source", "translation"), ("", "guess"), (alignment.source, alignment.target), strict=True)
    parts = [
        *(f'<p><span class="pill {kind}">{name}</span> {escape(" ".join(words))}</p>' for name, kind, words in texts),
        picture(alignment),
    ]
    if layers * heads > 1:
        parts += [
            folded(
                f"layer {layer + 1}: {heads} heads",
                *(
                    f'<p class="query">head {head + 1}</p>'
                    + weights_map(alignment.target, alignment.source, alignment.weights[layer, head].tolist())
                    for head in range(heads)
                ),
            )
            for layer in range(layers)
        ]
    return section(f"Text {number}", *parts)


def alignment_json(alignments: Mapping[int, AlignmentMatrix]) -> str:
    """The same as data: words, and weights as [layer][head][target word][source word]."""
    rows: list[dict[str, Any]] = [
        {
            "number": number,
            "source": list(alignment.source),
            "target": list(alignment.target),
            "weights": alignment.weights.round(5).tolist(),
        }
        for number, alignment in alignments.items()
    ]
    return json.dumps(rows, ensure_ascii=False) + "\n"
