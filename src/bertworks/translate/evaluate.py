"""How good a translator is: loss, perplexity and accuracy of the reference's tokens, and the BLEU of its own translations.

The first three are quick and say how the training goes. What counts is BLEU: while it trains, of greedy translations of some
development sentences, which is quick too; in the end of all of them, greedy and by beam search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import nn

from bertworks.data.pairs import PairSource
from bertworks.data.parallel import ParallelText
from bertworks.infer.decode import Beam, Greedy, Strategy
from bertworks.infer.generate import Generation
from bertworks.infer.translate import Translator
from bertworks.objectives.seq2seq import Seq2Seq
from bertworks.tasks.metrics.bleu import corpus_bleu
from bertworks.text.tokenizer import Tokenizer
from bertworks.train.evaluate import Evaluation
from bertworks.train.parallel import Parallel
from bertworks.translate.config import SearchSection

BLEU, GREEDY = "bleu", "bleu_greedy"
QUICK = Greedy(scores=False)
"""How texts are found that only BLEU looks at."""


class Judge:
    """The development pairs, prepared once."""

    def __init__(
        self, text: ParallelText, source: PairSource, tokenizer: Tokenizer, parallel: Parallel, *, num_sentences: int
    ) -> None:
        self.text = text.take(range(min(num_sentences, len(text))))
        self.tokenizer = tokenizer
        self.parallel = parallel
        self.losses = Evaluation(Seq2Seq(), source, parallel)

    def run(self, module: nn.Module, *, untrained: bool = False) -> dict[str, float]:
        """The figures of `module` as it is; every process computes them all, and gets the same.

        A model that is `untrained` seldom ends a sentence: its translations are cut at the references' lengths, so that
        they take about as much time as those of a trained one.
        """
        figures = self.losses.run(module)
        translator = Translator(module, self.tokenizer, device=self.parallel.device)
        longest = [int(length) + 1 for length in self.tokenizer.ids(self.text.targets)[1]] if untrained else None
        found = translator.write(self.text.sources, QUICK, max_tokens=longest)
        return {**figures, BLEU: score([best for best, *_ in found], self.text.targets)}


def score(translations: Sequence[Generation], references: Sequence[str]) -> float:
    """The BLEU of translations."""
    return corpus_bleu([translation.text for translation in translations], references).score


@dataclass(frozen=True)
class Judged:
    """What the finished model makes of some pairs."""

    text: ParallelText
    translations: Sequence[Generation]
    """By beam search."""
    figures: Mapping[str, float]


def judged(translator: Translator, text: ParallelText, search: SearchSection) -> Judged:
    """Translate all sentences twice."""
    by_beam = translator.translate(text.sources, strategy(search))
    greedy = translator.translate(text.sources, QUICK)
    return Judged(text, by_beam, {BLEU: score(by_beam, text.targets), GREEDY: score(greedy, text.targets)})


def strategy(search: SearchSection) -> Strategy:
    """The settings as what the decoder takes."""
    if search.beam == 1:
        return Greedy()
    return Beam(width=search.beam, length_penalty=search.length_penalty, coverage_penalty=search.coverage_penalty)
