"""A linear-chain conditional random field: tag a whole sequence at once (Lafferty et al., 2001; Lample et al., 2016).

A tagger that picks each tag on its own can write I-PER after B-LOC. The CRF scores whole paths y = y_1 ... y_n instead,

    score(y) = start[y_1] + sum_t emission[t, y_t] + sum_t transition[y_{t-1}, y_t] + end[y_n]
    log p(y) = score(y) - log Z            Z = sum over all paths of exp(score)

and sums over, or maximises over, the K^n paths in n steps of K^2 work: the forward algorithm gives log Z,
forward-backward gives p(y_t = k), Viterbi gives the best path. All are loops over time steps; the sequences of a batch
run side by side, each only as long as it is. All scores start at zero, so an untrained CRF is a softmax per token.

Paths can be forbidden (`AllowedTags`), in training and decoding or in decoding only. Left out: n-best paths, higher
orders, and transition scores that depend on the input. Scores are computed in at least float32.

Legend: T tokens in the packed batch, B sequences, S steps (the longest length), K tags, n sequences running at a step.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bertworks.errors import UsageError
from bertworks.nn.packed import Layout
from bertworks.nn.recurrent import TimeMajor

# The score of what is forbidden. Not -inf, whose differences are NaN in the backward pass; exp of it is exactly 0 next
# to any real path, in float32 too, and a path that has one is recognised by a total below half of it.
FORBIDDEN = -1e9


@dataclass(frozen=True)
class AllowedTags:
    """Which paths are legal: False forbids. For IOB2, an I-X may only follow a B-X or an I-X, and may not start."""

    transitions: Tensor  # (K, K) bool, from the row's tag to the column's
    starts: Tensor  # (K,) bool; in decoding also (B, K), each sequence's own
    ends: Tensor  # (K,) bool


@dataclass(frozen=True)
class _PathScores:
    starts: Tensor  # (K,) or (B, K)
    transitions: Tensor  # (K, K)
    ends: Tensor  # (K,)


class LinearChainCRF(nn.Module):
    """Scores of tag sequences, given one score per token and tag; `allowed` holds in training and decoding alike."""

    allowed_transitions: Tensor
    allowed_starts: Tensor
    allowed_ends: Tensor

    def __init__(self, num_tags: int, *, allowed: AllowedTags | None = None) -> None:
        super().__init__()
        if num_tags < 1:
            raise UsageError(f"num_tags is {num_tags}; it must be at least 1")
        self.num_tags = num_tags
        self.constrained = allowed is not None
        self.transitions = nn.Parameter(torch.zeros(num_tags, num_tags))
        self.starts = nn.Parameter(torch.zeros(num_tags))
        self.ends = nn.Parameter(torch.zeros(num_tags))
        if allowed is None:
            ones = torch.ones(num_tags, dtype=torch.bool)
            allowed = AllowedTags(ones.expand(num_tags, -1).clone(), ones, ones.clone())
        else:
            self._check_allowed(allowed, (num_tags,))
        # Not saved: the rules follow from the names of the tags, which whoever builds the CRF knows.
        self.register_buffer("allowed_transitions", allowed.transitions, persistent=False)
        self.register_buffer("allowed_starts", allowed.starts, persistent=False)
        self.register_buffer("allowed_ends", allowed.ends, persistent=False)

    def log_likelihood(self, emissions: Tensor, tags: Tensor, layout: Layout) -> Tensor:
        """(B,): the log-probability of each sequence's `tags` (T,) int64, given `emissions` (T, K); 0 if empty."""
        return self.score(emissions, tags, layout) - self.log_partition(emissions, layout)

    def score(self, emissions: Tensor, tags: Tensor, layout: Layout) -> Tensor:
        """(B,): the score of each sequence's `tags` (T,), not normalised."""
        emissions = self._checked(emissions, layout)
        self._check_tags(tags, layout)
        scores = self._path_scores()
        first, last, sequence = self._edges(layout, emissions.device)
        per_token = emissions.gather(1, tags[:, None]).squeeze(1)  # (T,)
        per_token = per_token + torch.where(first, scores.starts[tags], 0.0) + torch.where(last, scores.ends[tags], 0.0)
        into = scores.transitions[tags.roll(1), tags]  # (T,): from the token before; meaningless at a first token
        per_token = per_token + torch.where(first, 0.0, into)
        return per_token.new_zeros(layout.num_sequences).index_add(0, sequence, per_token)

    def log_partition(self, emissions: Tensor, layout: Layout) -> Tensor:
        """(B,): log Z, the log of the summed exp(score) of all paths; 0 for an empty sequence, which has one path."""
        emissions = self._checked(emissions, layout)
        if layout.total == 0:
            return emissions.new_zeros(layout.num_sequences)
        time_major = TimeMajor.of(layout, emissions.device)
        scores = self._path_scores()
        steps = time_major.steps(emissions[time_major.index])  # S x (n, K)
        log_z = torch.logsumexp(self._forward_pass(steps, scores)[1] + scores.ends, dim=1)  # (B',)
        if self.constrained:
            _require_path(log_z, time_major, layout)
        return log_z.new_zeros(layout.num_sequences).index_copy(0, time_major.order, log_z)

    def marginals(self, emissions: Tensor, layout: Layout) -> Tensor:
        """(T, K): the probability of each tag at each token, by forward-backward; rows sum to 1."""
        emissions = self._checked(emissions, layout)
        if layout.total == 0:
            return emissions.new_zeros(0, self.num_tags)
        time_major = TimeMajor.of(layout, emissions.device)
        sizes = time_major.step_sizes
        scores = self._path_scores()
        steps = time_major.steps(emissions[time_major.index])  # S x (n, K)
        forward, final = self._forward_pass(steps, scores)
        if self.constrained:
            _require_path(torch.logsumexp(final + scores.ends, dim=1), time_major, layout)

        # The log-sum of all that can follow a tag, from the last step to the first.
        after = scores.ends.expand(len(time_major.order), -1)  # (B', K)
        backward = [after] * len(steps)
        for step in reversed(range(len(steps))):
            if step + 1 < len(steps):
                running = sizes[step + 1]  # the other sequences have no such step: only `ends` follows their last tag
                following = (steps[step + 1] + after[:running])[:, None, :] + scores.transitions  # (n, K from, K to)
                after = torch.cat([torch.logsumexp(following, dim=2), after[running:]])
            backward[step] = after[: sizes[step]]
        # forward + backward is the log-sum of all paths through a tag, and each row's sum over the tags is log Z.
        return torch.softmax(torch.cat(forward) + torch.cat(backward), dim=1)[time_major.inverse]  # (T, K)

    @torch.no_grad()
    def decode(self, emissions: Tensor, layout: Layout, allowed: AllowedTags | None = None) -> list[list[int]]:
        """The best path of each sequence (Viterbi), as tags; `allowed` forbids more than the constructor did."""
        emissions = self._checked(emissions, layout)
        if allowed is not None:
            self._check_allowed(allowed, (self.num_tags,), (layout.num_sequences, self.num_tags))
        if layout.total == 0:
            return [[] for _ in layout.lengths]
        time_major = TimeMajor.of(layout, emissions.device)
        sizes = time_major.step_sizes
        scores = self._path_scores(allowed)
        steps = time_major.steps(emissions[time_major.index])  # S x (n, K)

        starts = scores.starts if scores.starts.dim() == 1 else scores.starts[time_major.order]  # (K,) or (B', K)
        best = starts + steps[0]  # (B', K): the best score of a path that ends in each tag
        came_from: list[Tensor] = []  # S - 1 times (n, K): the tag before, on that path
        for running, emission in zip(sizes[1:], steps[1:], strict=True):
            reached, previous = (best[:running, :, None] + scores.transitions).max(dim=1)  # (n, K to)
            came_from.append(previous)
            best = torch.cat([reached + emission, best[running:]])
        total, tag = (best + scores.ends).max(dim=1)  # (B',): each sequence's last tag
        if self.constrained or allowed is not None:
            _require_path(total, time_major, layout)

        # Walk back: at its last step a sequence joins with its last tag, which `tag` holds for it until then.
        path = [tag] * len(steps)
        for step in reversed(range(len(steps))):
            path[step] = tag[: sizes[step]]
            if step > 0:
                before = came_from[step - 1].gather(1, path[step][:, None]).squeeze(1)  # (n,)
                tag = torch.cat([before, tag[sizes[step] :]])
        flat: list[int] = torch.cat(path)[time_major.inverse].tolist()
        spans = zip(layout.starts, layout.lengths, strict=True)
        return [flat[start : start + length] for start, length in spans]

    def _forward_pass(self, steps: tuple[Tensor, ...], scores: _PathScores) -> tuple[list[Tensor], Tensor]:
        """The log-sum of all paths up to and into each tag: per step (n, K), and at each sequence's end (B', K)."""
        sums = scores.starts + steps[0]  # (B', K)
        per_step = [sums]
        for emission in steps[1:]:
            running = len(emission)
            arriving = sums[:running, :, None] + scores.transitions  # (n, K from, K to)
            per_step.append(torch.logsumexp(arriving, dim=1) + emission)  # (n, K)
            sums = torch.cat([per_step[-1], sums[running:]])
        return per_step, sums

    def _path_scores(self, more: AllowedTags | None = None) -> _PathScores:
        starts, transitions, ends = self.allowed_starts, self.allowed_transitions, self.allowed_ends
        if more is not None:
            device = starts.device
            starts = starts & more.starts.to(device)
            transitions = transitions & more.transitions.to(device)
            ends = ends & more.ends.to(device)
        return _PathScores(
            _at_least_float32(self.starts).expand(starts.shape).masked_fill(~starts, FORBIDDEN),
            _at_least_float32(self.transitions).masked_fill(~transitions, FORBIDDEN),
            _at_least_float32(self.ends).masked_fill(~ends, FORBIDDEN),
        )

    def _edges(self, layout: Layout, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """(T,) each: is this the first token of its sequence, the last one, and which sequence is it."""
        lengths = torch.tensor(layout.lengths, dtype=torch.long)
        sequence = layout.sequence_ids()
        position = layout.positions()
        return (position == 0).to(device), (position == lengths[sequence] - 1).to(device), sequence.to(device)

    def _checked(self, emissions: Tensor, layout: Layout) -> Tensor:
        wanted = (layout.total, self.num_tags)
        if tuple(emissions.shape) != wanted:
            raise UsageError(f"the emissions have shape {tuple(emissions.shape)}; they must be {wanted} (tokens, tags)")
        return _at_least_float32(emissions)

    def _check_tags(self, tags: Tensor, layout: Layout) -> None:
        if tuple(tags.shape) != (layout.total,):
            raise UsageError(f"the tags have shape {tuple(tags.shape)}; they must be ({layout.total},), one per token")
        wrong = (tags < 0) | (tags >= self.num_tags)
        if bool(wrong.any()):
            value, place = int(tags[wrong][0]), int(wrong.nonzero()[0])
            raise UsageError(
                f"token {place} has tag {value}; tags are 0 to {self.num_tags - 1}. "
                "Tokens without a tag must be left out of emissions, tags and layout"
            )
        if not self.constrained:
            return
        first, last, sequence = self._edges(layout, tags.device)
        wrong = first & ~self.allowed_starts[tags] | last & ~self.allowed_ends[tags]
        wrong |= ~first & ~self.allowed_transitions[tags.roll(1), tags]
        if bool(wrong.any()):
            number = int(sequence[wrong][0])
            start, length = layout.starts[number], layout.lengths[number]
            raise UsageError(
                f"the tags of sequence {number}, {tags[start : start + length].tolist()}, are a forbidden path; "
                "repair the tags, or forbid paths in `decode` only"
            )

    def _check_allowed(self, allowed: AllowedTags, *starts: tuple[int, ...]) -> None:
        tags = self.num_tags
        shapes = {"transitions": ((tags, tags),), "starts": starts, "ends": ((tags,),)}
        for name, known in shapes.items():
            mask: Tensor = getattr(allowed, name)
            if mask.dtype != torch.bool or tuple(mask.shape) not in known:
                raise UsageError(
                    f"allowed.{name} is {mask.dtype} of shape {tuple(mask.shape)}; "
                    f"it must be torch.bool of shape {' or '.join(map(str, known))}"
                )


def _at_least_float32(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _require_path(scores: Tensor, time_major: TimeMajor, layout: Layout) -> None:
    """Raise if the best or summed score (B',) of a sequence says that every path of its length is forbidden."""
    lost = scores < FORBIDDEN / 2
    if bool(lost.any()):
        number = int(time_major.order[lost][0])
        raise UsageError(
            f"no tag path of length {layout.lengths[number]} is allowed for sequence {number}; "
            "allow more starts, transitions or ends"
        )
