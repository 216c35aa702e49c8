"""What `bertworks.load` returns for a model that reads one text and writes another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Unpack

import torch
from torch import nn

from bertworks.errors import ModelError, UsageError
from bertworks.hub.translation import Translation, save_translation
from bertworks.infer.decode import Strategy
from bertworks.infer.decoders import lay_out_for_steps
from bertworks.infer.embed import Runner
from bertworks.infer.generate import Generation, StrategyOptions, Writer, choose_strategy
from bertworks.infer.loaded import LoadedModel, strings
from bertworks.infer.translate import AlignmentMatrix, Translator
from bertworks.models.device import usable_device


class LoadedTranslator(LoadedModel):
    """An encoder-decoder with its tokenizers; it translates, and has no vectors, masks or labels to give."""

    def __init__(self, translation: Translation, *, device: str | torch.device = "cpu") -> None:
        self.device = usable_device(device)
        self.settings = None
        self.directory = translation.directory
        self.translation = replace(translation, model=translation.model.eval().to(self.device))

    @property
    def module(self) -> nn.Module:
        """The encoder-decoder."""
        return self.translation.model

    @property
    def runner(self) -> Runner:
        raise ModelError(
            "this model reads one text and writes another; what it can do here is `translate`, `align` and `generate`"
        )

    @cached_property
    def writer(self) -> Writer:
        """What writes."""
        return self.translator

    @cached_property
    def translator(self) -> Translator:
        """What translates texts of any length."""
        opened = self.translation
        lay_out_for_steps(opened.model)
        return Translator(opened.model, opened.source, opened.target, device=self.device)

    def translate(
        self, texts: Sequence[str], strategy: Strategy | None = None, **options: Unpack[StrategyOptions]
    ) -> list[Generation]:
        """The best translation of each text, by a `strategy` or the options of `generate` (`beam=4`, `top_k=10` …);
        without either with a beam of 5."""
        if options and strategy is None:
            strategy = choose_strategy(**options)
        elif options:
            raise UsageError(f"give a strategy or {next(iter(options))}, not both")
        return self.translator.translate(strings(texts), strategy)

    def align(self, source: str, target: str) -> AlignmentMatrix:
        """Where the decoder looks in `source` while it is made to write `target`, word by word."""
        return self.translator.align(source, target)

    def save(self, directory: str | Path) -> None:
        """Write a directory that `bertworks.load` and, where the model is of one of its families, `transformers` open."""
        save_translation(self.translation, directory)
