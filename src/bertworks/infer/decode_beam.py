"""Beam search: the W best beginnings of each sentence are continued side by side   (Graves 2012, Sutskever et al. 2014).

At every step the beams of a sentence have W · V continuations. The best 2 W of these are looked at: those that end join the
sentence's finished ones if they are among the best W, and the best W of the others go on.

    score = log P / length^a + b · Σ_i log min(Σ_j attention_ij, 1)

The first term is divided by the length (the ending token counted) to the power a, so that longer results are not at a
disadvantage; the second, from Wu et al. 2016 (section 7), takes off for words i of the source that all steps j together gave
less attention than one word's worth. A sentence is settled when it has W finished results of which none is worse than what its
best beam is worth now; it then leaves the batch. Rules and results, b aside, are those of `transformers`, token for token.

Legend: B live sentences, W beams, R rows per sentence (1 at first, then W), V vocabulary, K candidates, S longest source,
P steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from bertworks.errors import ModelError, UsageError
from bertworks.infer.decode import Beam, Decoder, Hypothesis, Ids, State, largest
from bertworks.models.seq2seq import TargetIds

WORST = -1e9
"""The score of what is not there."""
NEARLY_NO_ATTENTION = 1e-6
"""A word that no step looked at costs as much as this; the logarithm of 0 would end all comparison."""


@dataclass
class _Sentences:
    """What is known of the B sentences that are still in the batch."""

    number: Tensor  # (B,) their places among the inputs
    limit: Tensor  # (B,) how many new tokens they may have
    scores: Tensor  # (B, R) log probabilities of the beams
    tokens: Tensor  # (B, R, P)
    ended_scores: Tensor  # (B, W) of the finished results, best first
    ended_logs: Tensor  # (B, W)
    ended_tokens: Tensor  # (B, W, P)
    ended_lengths: Tensor  # (B, W)

    def keep(self, which: Tensor) -> None:
        """Leave the other sentences out."""
        for part in fields(self):
            setattr(self, part.name, getattr(self, part.name)[which])


def beam_search(
    decoder: Decoder[State], inputs: Sequence[Ids], beam: Beam, *, limits: Tensor, ids: TargetIds
) -> list[list[Hypothesis]]:
    """The `beam.num` best continuations of each input, best first; limits (B,) are their longest lengths."""
    width = beam.width
    if width > decoder.vocab_size:
        raise UsageError(
            f"a beam of width {width} is wider than the vocabulary, which has {decoder.vocab_size} tokens; "
            f"choose a width of at most {decoder.vocab_size}"
        )
    steps = int(limits.max())
    state, logits = decoder.start(inputs, max_new_tokens=steps, attentions=beam.coverage_penalty > 0)
    coverage = _Coverage(decoder.attention(state), inputs, beam.coverage_penalty)
    sentences = _start(len(inputs), limits.to(logits.device), width, steps)
    ends = torch.tensor(ids.end, dtype=torch.long, device=logits.device)
    results: dict[int, list[Hypothesis]] = {}
    for step in range(steps):
        is_last = sentences.limit == step + 1  # (B,)
        best, parents, tokens = _candidates(logits, sentences, step, is_last, ids, max(2, 1 + len(ids.end)) * width)
        is_end = torch.isin(tokens, ends) | is_last[:, None]  # (B, K)
        _collect(sentences, step, best, parents, tokens, is_end, coverage.penalty(parents), beam)
        settled = _settled(sentences, step, best, is_end, beam) | is_last  # (B,)
        order = torch.sort(is_end.byte(), dim=1, stable=True).indices[:, :width]  # the best that go on: (B, W)
        parents, tokens = parents.gather(1, order), tokens.gather(1, order)  # (B, W)
        sentences.scores = best.gather(1, order)
        sentences.tokens = _gather_rows(sentences.tokens, parents)
        sentences.tokens[:, :, step] = tokens
        num_rows = logits.shape[0] // len(sentences.number)
        rows = parents + torch.arange(len(parents), device=parents.device)[:, None] * num_rows  # (B, W)
        if bool(settled.any()):
            results |= _results(sentences, settled, beam.num, ids)
            stay = (~settled).nonzero().squeeze(1)
            if len(stay) == 0:
                break
            sentences.keep(stay)
            rows, tokens = rows[stay], tokens[stay]
        decoder.select(state, rows.flatten())
        coverage.select(rows)
        logits = decoder.step(state, tokens.flatten())
        coverage.add(decoder.attention(state))
    return [results[number] for number in range(len(inputs))]


def _start(count: int, limits: Tensor, width: int, steps: int) -> _Sentences:
    device = limits.device
    tokens = torch.zeros(count, width, steps, dtype=torch.long, device=device)
    return _Sentences(
        number=torch.arange(count, device=device),
        limit=limits,
        scores=torch.zeros(count, 1, device=device),
        tokens=tokens[:, :1].clone(),
        ended_scores=torch.full((count, width), WORST, device=device),
        ended_logs=torch.full((count, width), WORST, device=device),
        ended_tokens=tokens,
        ended_lengths=torch.zeros(count, width, dtype=torch.long, device=device),
    )


def _candidates(
    logits: Tensor, sentences: _Sentences, step: int, is_last: Tensor, ids: TargetIds, count: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The best continuations of each sentence: log probabilities, parent beams and tokens, each (B, K), best first."""
    num_sentences, num_rows = sentences.scores.shape
    norms = torch.logsumexp(logits, dim=-1, keepdim=True)  # (B R, 1)
    if ids.forbidden:
        logits[:, list(ids.forbidden)] = -torch.inf
    if step == 0 and ids.first is not None:
        _settle(logits, norms, torch.ones_like(is_last), ids.first)
    elif ids.last is not None and bool(is_last.any()):
        _settle(logits, norms, is_last.repeat_interleave(num_rows), ids.last)
    few = min(count, logits.shape[-1])
    values, places = largest(logits, few)  # (B R, few)
    values = (values - norms).view(num_sentences, num_rows, few) + sentences.scores[:, :, None]
    flat = values.flatten(1).clamp(min=WORST)  # (B, R few)
    best, at = flat.topk(min(count, flat.shape[1]), dim=1)  # (B, K)
    if best.shape[1] < count:  # a vocabulary smaller than the beam's wishes: repeat the last, as good as not there
        missing = count - best.shape[1]
        best = torch.cat([best, best.new_full((num_sentences, missing), WORST)], dim=1)
        at = torch.cat([at, at[:, -1:].expand(-1, missing)], dim=1)
    return best, at // few, places.view(num_sentences, -1).gather(1, at)


def _settle(logits: Tensor, norms: Tensor, rows: Tensor, token: int) -> None:
    """Make `token` the only and certain one in the given rows."""
    logits[rows] = -torch.inf
    logits[rows, token] = 0.0
    norms[rows] = 0.0


def _collect(
    sentences: _Sentences,
    step: int,
    best: Tensor,
    parents: Tensor,
    tokens: Tensor,
    is_end: Tensor,
    penalty: Tensor | float,
    beam: Beam,
) -> None:
    """Add those of the best W candidates that end to the finished results, of which the best W stay."""
    width = beam.width
    ending = is_end[:, :width] & (best[:, :width] > WORST / 2)
    if not bool(ending.any()):
        return
    scores = best / (step + 1) ** beam.length_penalty + penalty  # (B, K)
    scores = torch.where(ending, scores[:, :width], WORST)  # (B, W)
    found = _gather_rows(sentences.tokens, parents[:, :width])  # (B, W, P)
    found[:, :, step] = tokens[:, :width]
    scores, order = torch.cat([sentences.ended_scores, scores], dim=1).topk(width, dim=1)  # (B, W)
    lengths = torch.full_like(sentences.ended_lengths, step + 1)
    sentences.ended_scores = scores
    sentences.ended_logs = torch.cat([sentences.ended_logs, best[:, :width]], dim=1).gather(1, order)
    sentences.ended_tokens = _gather_rows(torch.cat([sentences.ended_tokens, found], dim=1), order)
    sentences.ended_lengths = torch.cat([sentences.ended_lengths, lengths], dim=1).gather(1, order)


def _settled(sentences: _Sentences, step: int, best: Tensor, is_end: Tensor, beam: Beam) -> Tensor:
    """(B,): which sentences have W finished results that none of their beams is expected to better."""
    worst = sentences.ended_scores[:, -1]  # (B,)
    is_full = worst > WORST / 2
    if beam.early_stopping:
        return is_full
    going_on = torch.where(is_end, WORST, best).amax(dim=1)  # (B,)
    return is_full & (going_on / (step + 1) ** beam.length_penalty <= worst)


def _results(sentences: _Sentences, which: Tensor, num: int, ids: TargetIds) -> dict[int, list[Hypothesis]]:
    """The finished results of some sentences by the sentences' numbers."""
    chosen = [
        part[which].cpu()
        for part in (
            sentences.number,
            sentences.ended_scores,
            sentences.ended_logs,
            sentences.ended_tokens,
            sentences.ended_lengths,
        )
    ]
    results = {}
    for number, scores, logs, tokens, lengths in zip(*chosen, strict=True):
        hypotheses: list[Hypothesis] = []
        for score, log, row, length in zip(scores[:num], logs[:num], tokens[:num].numpy(), lengths[:num], strict=True):
            if score <= WORST / 2 and hypotheses:
                break  # fewer results than asked for: the vocabulary has no more
            finished = int(row[length - 1]) in ids.end
            hypotheses.append(Hypothesis(row[: int(length) - finished].copy(), float(log), float(score), finished))
        results[int(number)] = hypotheses
    return results


def _gather_rows(rows: Tensor, index: Tensor) -> Tensor:
    """rows (B, R, P), index (B, n) -> (B, n, P)"""
    return rows.gather(1, index[:, :, None].expand(-1, -1, rows.shape[2]))


class _Coverage:
    """How much attention each word of the source has had, for every beam: (B, R, S). Does nothing without a penalty."""

    def __init__(self, attention: Tensor | None, inputs: Sequence[Ids], weight: float) -> None:
        self.weight = weight
        self.had: Tensor | None = None
        if weight == 0:
            return
        if attention is None:
            raise ModelError("a coverage penalty needs attention to a source, which this model does not have")
        lengths = torch.tensor([len(row) for row in inputs], device=attention.device)
        self.inside = torch.arange(attention.shape[1], device=attention.device) < lengths[:, None]  # (B, S)
        self.had = attention[:, None]  # (B, 1, S)

    def penalty(self, parents: Tensor) -> Tensor | float:
        """What the candidates with the given parent beams (B, K) lose: (B, K), at most 0."""
        if self.had is None:
            return 0.0
        logs = self.had.clamp(NEARLY_NO_ATTENTION, 1.0).log() * self.inside[:, None]  # (B, R, S)
        return self.weight * logs.sum(dim=-1).gather(1, parents)

    def select(self, rows: Tensor) -> None:
        """The beams of the next step by their rows in this one, (B, W)."""
        if self.had is not None:
            self.inside = self.inside[rows[:, 0] // self.had.shape[1]]
            self.had = self.had.flatten(0, 1)[rows]

    def add(self, attention: Tensor | None) -> None:
        """The attention of one more step, (B W, S); sources that left may have taken columns with them."""
        if self.had is not None and attention is not None:
            size = attention.shape[1]
            self.had = self.had[:, :, :size] + attention.view(*self.had.shape[:2], size)
            self.inside = self.inside[:, :size]
