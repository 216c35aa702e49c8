"""Cloze: what stands behind the masks?

    independently   each mask's distribution given the text, the other masks unknown
    jointly         beam search over all masks: the surest one is filled first, the next given it, and so on, so that the
                    answers fit each other; the score is the product of the conditional probabilities in that order
    targets         given strings are scored whole: a target of several tokens takes as many masks, filled left to right

The joint score depends on the order of filling, as every chain through a masked model does; it ranks candidates, and is not
a calibrated probability.

Legend: M masks in the text, K candidates, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bertworks.errors import ModelError, UsageError
from bertworks.infer.batching import batches
from bertworks.infer.embed import Runner
from bertworks.nn.packed import Packed

ANY_MASK = "[MASK]"
"""Accepted in every text, whatever the model's own mask token looks like."""


@dataclass(frozen=True)
class Candidate:
    """One token for one mask; `text` is the whole text with it in place (other masks left as they are)."""

    token: str
    probability: float
    id: int
    text: str


@dataclass(frozen=True)
class JointCandidate:
    """One token for every mask, in the text's order."""

    tokens: tuple[str, ...]
    probability: float
    text: str


@dataclass(frozen=True)
class TargetScore:
    """A given string in the place of the mask: its chain probability, and its share among the targets that were given."""

    target: str
    probability: float
    share: float
    num_tokens: int
    text: str


class Cloze:
    """Fill-in with a model that has a masked-LM head."""

    def __init__(self, runner: Runner) -> None:
        if "mlm" not in runner.model.heads:
            raise ModelError(
                "this model cannot fill masks: it has no masked-LM head; choose one that has, "
                "for example bertworks-en (English, in this package) or the directory of a pretrained masked LM"
            )
        if runner.tokenizer.specials.mask is None or runner.tokenizer.mask_id is None:
            raise ModelError("this model's tokenizer has no mask token")
        self.runner = runner
        self.mask_token: str = runner.tokenizer.specials.mask
        self.mask_id: int = runner.tokenizer.mask_id

    def fill(self, text: str, *, top_k: int = 5) -> list[list[Candidate]]:
        """For each mask, its `top_k` most probable tokens, the other masks left open."""
        text, ids, places = self._masked(text)
        logits = self._logits([ids], [places])[0]  # (M, V)
        probabilities = torch.softmax(logits, dim=-1)
        best, tokens = probabilities.topk(min(top_k, probabilities.shape[-1]), dim=-1)  # (M, K)
        spelled = {token: self.spell(token) for token in set(tokens.flatten().tolist())}
        pieces = text.split(self.mask_token)
        results = []
        for mask, (row, row_tokens) in enumerate(zip(best.tolist(), tokens.tolist(), strict=True)):
            before, after = self.mask_token.join(pieces[: mask + 1]), self.mask_token.join(pieces[mask + 1 :])
            results.append(
                [
                    Candidate(spelled[token], probability, token, _joined(before, spelled[token]) + after)
                    for probability, token in zip(row, row_tokens, strict=True)
                ]
            )
        return results

    def fill_jointly(self, text: str, *, top_k: int = 5, beam: int | None = None) -> list[JointCandidate]:
        """The `top_k` best assignments of tokens to all masks together."""
        text, ids, places = self._masked(text)
        width = beam or max(2 * top_k, 10)
        hypotheses: dict[tuple[tuple[int, int], ...], float] = {(): 0.0}  # (mask, token) pairs -> log probability
        for _ in places:
            states = list(hypotheses.items())
            open_masks = [[m for m in range(len(places)) if m not in dict(filled)] for filled, _ in states]
            sequences = [self._with(ids, places, filled) for filled, _ in states]
            rows = [[places[m] for m in masks] for masks in open_masks]
            grown: dict[tuple[tuple[int, int], ...], float] = {}
            for (filled, score), masks, logits in zip(states, open_masks, self._logits(sequences, rows), strict=True):
                logs = torch.log_softmax(logits, dim=-1)  # (open masks, V)
                surest = int(logs.max(dim=-1).values.argmax())
                best, tokens = logs[surest].topk(min(width, logs.shape[-1]))
                for log, token in zip(best.tolist(), tokens.tolist(), strict=True):
                    key = tuple(sorted((*filled, (masks[surest], token))))
                    grown[key] = max(grown.get(key, -np.inf), score + log)
            kept = sorted(grown.items(), key=lambda item: (-item[1], item[0]))[:width]
            hypotheses = dict(kept)
        found = []
        for filled, score in list(hypotheses.items())[:top_k]:
            spelled = tuple(self.spell(token) for _, token in filled)  # in the order of the masks
            found.append(JointCandidate(spelled, float(np.exp(score)), self._put(text, spelled)))
        return found

    def score_targets(self, text: str, targets: Sequence[str]) -> list[TargetScore]:
        """Rank the given strings for the one mask in `text`; each is scored as a whole, however many tokens it has."""
        text = self._own_mask(text)
        if text.count(self.mask_token) != 1:
            raise UsageError(f"targets need a text with exactly one mask, this one has {text.count(self.mask_token)}")
        before, after = text.split(self.mask_token)
        logs: list[float] = []
        counts: list[int] = []
        for target in targets:
            encoding = self.runner.tokenizer.encode(before + target + after)
            low, high = len(before), len(before) + len(target)
            covered = (encoding.offsets[:, 0] < high) & (encoding.offsets[:, 1] > low) & ~encoding.special
            places = np.flatnonzero(covered).tolist()
            if not places:
                raise UsageError(f"the target {target!r} has no token in this model's vocabulary")
            self._check_length(len(encoding))
            logs.append(self._chain(encoding.ids.astype(np.int64), places))
            counts.append(len(places))
        probabilities = np.exp(np.array(logs))
        shares = np.exp(np.array(logs) - np.logaddexp.reduce(logs))
        scores = [
            TargetScore(target, float(probability), float(share), count, before + target + after)
            for target, probability, share, count in zip(targets, probabilities, shares, counts, strict=True)
        ]
        return sorted(scores, key=lambda score: -score.share)

    def _chain(self, ids: np.ndarray, places: list[int]) -> float:
        """log P of the tokens at `places`, left to right, the later ones masked: one batch, a sequence per step."""
        sequences = []
        for step in range(len(places)):
            masked = ids.copy()
            masked[places[step:]] = self.mask_id
            sequences.append(masked)
        total = 0.0
        for step, logits in enumerate(self._logits(sequences, [[place] for place in places])):
            total += float(torch.log_softmax(logits[0], dim=-1)[int(ids[places[step]])])
        return total

    def _own_mask(self, text: str) -> str:
        return text.replace(ANY_MASK, self.mask_token)

    def _masked(self, text: str) -> tuple[str, np.ndarray, list[int]]:
        """The text with the model's own mask token, its ids, and the places of the masks."""
        text = self._own_mask(text)
        ids = self.runner.tokenizer.encode(text).ids.astype(np.int64)
        places = np.flatnonzero(ids == self.mask_id).tolist()
        if not places:
            raise UsageError(f"the text has no mask: put {ANY_MASK} where a word is to be found")
        self._check_length(len(ids))
        return text, ids, places

    def _check_length(self, length: int) -> None:
        limit = self.runner.model.num_positions
        if limit is not None and length > limit:
            raise UsageError(f"the text has {length} tokens, this model takes {limit}: shorten it around the mask")

    def _with(self, ids: np.ndarray, places: list[int], filled: tuple[tuple[int, int], ...]) -> np.ndarray:
        ids = ids.copy()
        for mask, token in filled:
            ids[places[mask]] = token
        return ids

    @torch.inference_mode()
    def _logits(self, sequences: Sequence[np.ndarray], places: Sequence[Sequence[int]]) -> list[Tensor]:
        """The masked-LM logits of each sequence at its places, each (len(places), V) float32 on the CPU.

        The projection to the vocabulary is made at these places only.
        """
        results: dict[int, Tensor] = {}
        lengths = np.array([len(sequence) for sequence in sequences])
        for chosen in batches(lengths, self.runner.batch_tokens):
            batch = Packed.from_sequences([sequences[index] for index in chosen])
            own = [places[index] for index in chosen]
            flat = [start + place for start, some in zip(batch.layout.starts, own, strict=True) for place in some]
            rows = batch.layout.rows(torch.tensor(flat, dtype=torch.long))
            logits = self.runner.model.logits(batch.to(self.runner.device), "mlm", rows=rows)
            pieces = logits.float().cpu().split([len(some) for some in own])
            results.update(zip(chosen.tolist(), pieces, strict=True))
        return [results[index] for index in range(len(sequences))]

    def spell(self, token: int) -> str:
        """As candidates are told: without the marks that byte-level tokens have for a space."""
        return self.runner.tokenizer.decode([token], skip_special=False).strip() or self.runner.tokenizer.token(token)

    def _put(self, text: str, spelled: Sequence[str]) -> str:
        """The text with a token in place of each mask."""
        result, *pieces = text.split(self.mask_token)
        for token, piece in zip(spelled, pieces, strict=False):
            result = _joined(result, token) + piece
        return result


def _joined(before: str, token: str) -> str:
    """A continuation piece (##s) joins the word before it."""
    return before.rstrip() + token[2:] if token.startswith("##") else before + token
