"""What a training will cost, said before it begins: parameters, floating-point operations, tokens, time.

Operations are counted as multiply and add, forward once and backward twice: 6 for each weight that a token meets, and
12 T H a layer for attention over T tokens (half of it where attention is causal). The vocabulary's matrix counts only
for the share of tokens at which a loss is taken; looking up an embedding is no work. A recurrent layer has, per gate, one
matrix for its input and one for its state.

Legend: H hidden, T sequence length, V vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bertworks.models.config import ModelConfig, RecurrentConfig, TransformerConfig

GATES = {"rnn": 1, "gru": 3, "lstm": 4}
EACH = 6  # operations per weight and token: 2 forward, 4 backward
EVALUATIONS = 10
EVALUATION_SHARE = 0.1  # of a budget, at most
TRAINING_SHARE = 0.98  # of a budget; the rest is for writing the result


def flops_per_token(config: ModelConfig, length: int, *, predicted: float) -> float:
    """Of one model, on sequences of `length` tokens, with heads over tokens at the share `predicted` of them."""
    body = config.body
    hidden = body.output_size
    total = _recurrent(body) if isinstance(body, RecurrentConfig) else _transformer(config.transformer, length)
    for head in config.heads:
        if head.reads != "tokens":
            continue  # once per sequence, not per token
        size = head.transform_size or hidden
        at_head = size * head.num_labels + (hidden * size if head.transform_size else 0)
        total += EACH * at_head * (predicted if head.task in ("mlm", "lm") else 1.0)
    return total


def _recurrent(body: RecurrentConfig) -> float:
    inputs = [body.embedding_size] + [body.output_size] * (body.num_hidden_layers - 1)
    directions = 2 if body.bidirectional else 1
    return EACH * directions * sum(GATES[body.cell] * body.hidden_size * (size + body.hidden_size) for size in inputs)


def _transformer(body: TransformerConfig, length: int) -> float:
    layer = body.layer
    hidden, inner = layer.hidden_size, layer.intermediate_size
    weights = 4 * hidden * hidden + (3 if layer.gated else 2) * hidden * inner
    attention = 12 * length * hidden * (0.5 if body.causal else 1.0)
    total = 0.0
    for index in range(body.num_hidden_layers):
        seen = min(length, 2 * body.local_window + 1) / length if body.is_local(index) and body.local_window else 1.0
        total += (EACH * weights + attention * seen) * body.layers_per_group
    if body.embeddings.size is not None:
        total += EACH * body.embeddings.size * hidden
    return total


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is known before the first step."""

    parameters: int
    steps: int
    first_step: int
    """Steps that earlier runs have done."""
    batch_tokens: float
    """Tokens in a step, as measured."""
    tokens: float
    """In all steps."""
    corpus_tokens: int
    """That are trained on, special tokens included."""
    flops_per_token: float
    tokens_per_second: float | None
    """Measured when the run began; a run that is resumed does not measure again."""
    seconds: float | None
    """That the steps to come will take, evaluation included."""

    @property
    def epochs(self) -> float:
        return self.tokens / max(self.corpus_tokens, 1)

    @property
    def flops(self) -> float:
        return self.flops_per_token * self.tokens

    @property
    def flops_per_second(self) -> float | None:
        return None if self.tokens_per_second is None else self.flops_per_token * self.tokens_per_second


def steps_within(
    seconds: float, per_step: float, *, per_evaluation: float, every: int | None = None
) -> tuple[int, int]:
    """How many steps fit in the time, and after how many of them each evaluation comes.

    `every` is what the settings say, 0 meaning never. Where they say nothing there are ten evaluations, or as many as a
    tenth of the time is for. A little is left for saving the result.
    """
    rest = seconds * TRAINING_SHARE
    per_step = max(per_step, 1e-9)
    if every == 0:
        return max(1, int(rest / per_step)), 0
    if every is not None:
        spread = per_evaluation / every  # a step's share of the evaluations; one more comes at the end
        return max(1, int((rest - per_evaluation) / (per_step + spread))), every
    evaluations = max(1, min(EVALUATIONS, int(seconds * EVALUATION_SHARE / max(per_evaluation, 1e-9))))
    count = max(1, int((rest - per_evaluation * evaluations) / per_step))
    return count, math.ceil(count / evaluations)
