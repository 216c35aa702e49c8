"""Pictures of alignments: where the decoder looked for each word that it wrote (Bahdanau et al. 2014, figure 3).

The page stands alone (`bertworks.page`): darker is more attention, a row sums to 1. Of a Transformer the heads' mean in the
last layer but one is shown large, which aligns best, and every layer and head behind a line that opens.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import Any

from bertworks.infer.translate import AlignmentMatrix
from bertworks.page import document, folded, section, soft, weights_map


def picture(alignment: AlignmentMatrix) -> str:
    """One sentence's map."""
    return weights_map(alignment.target, alignment.source, alignment.picture.tolist())


def alignment_page(title: str, alignments: Sequence[AlignmentMatrix]) -> str:
    """A page with all maps."""
    return document(
        f"Alignment: {title}",
        f"<h1>{escape(title)}</h1>",
        soft("Across: the source. Down: the translation. Darker: more attention while that word was written."),
        *(_sentence(number, alignment) for number, alignment in enumerate(alignments, start=1)),
    )


def _sentence(number: int, alignment: AlignmentMatrix) -> str:
    layers, heads = alignment.weights.shape[:2]
    parts = [picture(alignment)]
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
    return section(f"Sentence {number}", *parts)


def alignment_json(alignments: Sequence[AlignmentMatrix]) -> str:
    """The same as data: words, and weights as [layer][head][target word][source word]."""
    rows: list[dict[str, Any]] = [
        {
            "source": list(alignment.source),
            "target": list(alignment.target),
            "weights": alignment.weights.round(5).tolist(),
        }
        for alignment in alignments
    ]
    return json.dumps(rows, ensure_ascii=False) + "\n"
