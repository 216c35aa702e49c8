"""Texts out of a model: prompts continued, sources translated; many at once, or one word by word to a terminal.

    texts -> ids -> batches of near-equal length -> `decode` -> text, in the order of the texts

Batches run side by side, one per thread, as everywhere in `infer`; what is written for a text depends on the text, the options
and its place in the list, not on the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from bertworks.errors import UsageError
from bertworks.infer.batching import over_plan
from bertworks.infer.decode import Beam, Decoder, Greedy, Hypothesis, Ids, Sample, Strategy, Watch, decode
from bertworks.infer.decoders import decoder_for, lay_out_for_steps
from bertworks.models.seq2seq import TargetIds
from bertworks.text.tokenizer import Tokenizer

MAX_TOKENS = 100
"""How far a prompt is continued where nobody says."""
BATCH_ROWS = 64
"""Rows that are decoded together. More are no faster on a CPU, and wait longer for the last of them."""


@dataclass(frozen=True)
class Generation:
    """One text that a model wrote."""

    text: str
    """What is new: the continuation without its prompt, the translation."""
    tokens: tuple[str, ...]
    log_probability: float
    score: float
    """What ranks it among others; in beam search adjusted for length and coverage. Of a source in parts, their sum."""
    finished: bool
    """Whether it ended by itself, rather than at the longest length."""
    num_parts: int = 1
    """More than one where a source was longer than the model reads at once; 0 where it was empty."""


class StrategyOptions(TypedDict, total=False):
    """What `choose_strategy` takes."""

    beam: int | None
    top_k: int | None
    top_p: float | None
    temperature: float | None
    num: int
    seed: int
    length_penalty: float
    coverage_penalty: float


def choose_strategy(
    *,
    beam: int | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    temperature: float | None = None,
    num: int = 1,
    seed: int = 0,
    length_penalty: float = 1.0,
    coverage_penalty: float = 0.0,
) -> Strategy:
    """What the options mean together: beam search, drawing, or without either the most probable tokens."""
    drawing = {"top_k": top_k, "top_p": top_p, "temperature": temperature}
    given = [name for name, value in drawing.items() if value is not None]
    if beam is not None:
        if given:
            raise UsageError(
                f"beam and {given[0]} do not go together: a beam keeps the most probable, and draws nothing"
            )
        return Beam(width=beam, num=num, length_penalty=length_penalty, coverage_penalty=coverage_penalty)
    for name, value, usual in (("length_penalty", length_penalty, 1.0), ("coverage_penalty", coverage_penalty, 0.0)):
        if value != usual:
            raise UsageError(f"{name} is for beam search; give beam too")
    if given:
        warmth = 1.0 if temperature is None else temperature
        return Sample(temperature=warmth, top_k=top_k, top_p=top_p, seed=seed, num=num)
    if num != 1:
        raise UsageError(
            f"num is {num}, but there is only one most probable text; give beam, or top_k, top_p or temperature to draw"
        )
    return Greedy()


def decode_all(
    decoder: Decoder[Any],
    inputs: Sequence[Ids],
    strategy: Strategy,
    *,
    max_new_tokens: int | Sequence[int],
    ids: TargetIds,
    device: torch.device,
    batch_size: int | None = None,
    numbers: NDArray[np.int64] | None = None,
    watch: Watch | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[list[Hypothesis]]:
    """`decode` for any number of inputs, in batches of `batch_size` inputs of near-equal length; results in their order.

    numbers:  (inputs,) on which drawn tokens depend; by default the inputs' places
    progress: gets how many inputs are done, and of how many
    """
    rows = strategy.width if isinstance(strategy, Beam) else strategy.num if isinstance(strategy, Sample) else 1
    size = batch_size or max(1, BATCH_ROWS // rows)
    limits = [max_new_tokens] * len(inputs) if isinstance(max_new_tokens, int) else max_new_tokens
    found: dict[int, list[Hypothesis]] = {}

    def work(chosen: np.ndarray) -> None:
        results = decode(
            decoder,
            [inputs[number] for number in chosen],
            strategy,
            max_new_tokens=[limits[number] for number in chosen],
            ids=ids,
            numbers=chosen if numbers is None else numbers[chosen],
            watch=watch,
        )
        found.update(zip(chosen.tolist(), results, strict=True))

    order = np.argsort([-len(row) for row in inputs], kind="stable")
    plan = [order[start : start + size] for start in range(0, len(order), size)]
    for done in over_plan(work, plan, device=device):
        if progress is not None:
            progress(done, len(inputs))
    return [found[number] for number in range(len(inputs))]


class Writer(Protocol):
    """What writes texts: `PromptWriter`, or a `Translator` (`infer.translate`)."""

    continues: bool
    """Whether it goes on with what it reads, rather than writing something of its own."""

    def write(
        self,
        texts: Sequence[str],
        strategy: Strategy,
        *,
        max_tokens: int | None = None,
        first: int = 0,
        on_text: Callable[[str], None] | None = None,
    ) -> list[list[Generation]]:
        """One or more texts for each, the best first.

        first:    the place of the first text in all that is written, on which drawn texts depend
        on_text:  gets the text piece by piece as it is written, with a beam all at once; for a single text
        """
        ...


class PromptWriter:
    """A language model and its tokenizer: prompts are continued."""

    continues = True

    def __init__(self, model: nn.Module, tokenizer: Tokenizer, *, ids: TargetIds, device: torch.device) -> None:
        self.decoder = decoder_for(model)
        lay_out_for_steps(model)
        self.tokenizer = tokenizer
        self.ids = ids
        self.device = device

    def write(
        self,
        texts: Sequence[str],
        strategy: Strategy,
        *,
        max_tokens: int | None = None,
        first: int = 0,
        on_text: Callable[[str], None] | None = None,
    ) -> list[list[Generation]]:
        """See `Writer`; without `max_tokens` a prompt is continued for at most 100 tokens."""
        inputs = self.encode(texts)
        for number, row in enumerate(inputs):
            try:
                self.decoder.room(len(row))
            except UsageError as error:
                which = f"text {number + first + 1}: " if len(texts) > 1 else ""
                raise UsageError(f"{which}{error}") from error
        stream = TextStream.of(on_text, texts, strategy, lambda tokens: self.text(inputs[0], tokens), self.ids.end)
        found = decode_all(
            self.decoder,
            inputs,
            strategy,
            max_new_tokens=MAX_TOKENS if max_tokens is None else max_tokens,
            ids=self.ids,
            device=self.device,
            numbers=first + np.arange(len(inputs)),
            watch=None if stream is None else stream.watch,
        )
        results = [
            [self._generation(row, hypothesis) for hypothesis in found[number]] for number, row in enumerate(inputs)
        ]
        if stream is not None:
            stream.finish(results[0][0].text)
        return results

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """The ids that the model reads; a prompt gets no ending, and an empty one begins where texts begin."""
        flat, lengths = self.tokenizer.ids(texts)
        rows = np.split(flat.astype(np.int64), np.cumsum(lengths)[:-1]) if len(texts) else []
        prefix = self.tokenizer.template.prefix.astype(np.int64)
        begin = next((number for number in (self.tokenizer.bos_id, self.tokenizer.eos_id) if number is not None), None)
        empty = np.array([] if begin is None else [begin], dtype=np.int64)
        rows = [np.concatenate([prefix, row]) for row in rows]
        return [row if len(row) else empty for row in rows]

    def text(self, read: Ids, tokens: Ids) -> str:
        """What the new tokens say after those that were read."""
        # Joined first: whether a word begins with a space can depend on what stands before it.
        before, whole = self.tokenizer.decode(read), self.tokenizer.decode(np.concatenate([read, tokens]))
        return whole[len(before) :] if whole.startswith(before) else self.tokenizer.decode(tokens)

    def _generation(self, read: Ids, hypothesis: Hypothesis) -> Generation:
        return Generation(
            text=self.text(read, hypothesis.tokens),
            tokens=tuple(self.tokenizer.tokens(hypothesis.tokens)),
            log_probability=hypothesis.log_probability,
            score=hypothesis.score,
            finished=hypothesis.finished,
        )


class TextStream:
    """Tells the text as its tokens come, and holds back what may still change: half a character, a word's spelling."""

    def __init__(self, text: Callable[[Ids], str], end: Sequence[int], on_text: Callable[[str], None]) -> None:
        """text: what tokens say; end: the tokens that say nothing, and end a text"""
        self.text = text
        self.end = end
        self.on_text = on_text
        self.tokens: list[int] = []
        self.told = ""

    @classmethod
    def of(
        cls,
        on_text: Callable[[str], None] | None,
        texts: Sequence[str],
        strategy: Strategy,
        text: Callable[[Ids], str],
        end: Sequence[int],
    ) -> TextStream | None:
        """The stream of the only text, where one is wanted."""
        if on_text is None:
            return None
        if len(texts) != 1 or getattr(strategy, "num", 1) != 1:
            raise UsageError("on_text is for one text at a time")
        return cls(text, end, on_text)

    def watch(self, rows: np.ndarray, tokens: np.ndarray) -> None:
        """One more token."""
        token = int(tokens[0])
        if token not in self.end:
            self.tokens.append(token)
            self._tell(self.text(np.array(self.tokens)).rstrip("\ufffd"))

    def finish(self, text: str) -> None:
        """All is there."""
        self._tell(text)

    def _tell(self, text: str) -> None:
        if text.startswith(self.told) and len(text) > len(self.told):
            self.on_text(text[len(self.told) :])
            self.told = text
