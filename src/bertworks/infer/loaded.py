"""What `bertworks.load` returns: a model with its tokenizer, ready to use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import numpy as np
import torch

from bertworks import hub
from bertworks.errors import UsageError, choice
from bertworks.hub.sentence import SentenceSettings
from bertworks.hub.tensors import INT8_SAFETENSORS
from bertworks.hub.translation import is_translation, load_translation
from bertworks.infer.attention import Attention, attend
from bertworks.infer.batching import default_batch_tokens
from bertworks.infer.embed import (
    POOLINGS,
    EmbedReport,
    Progress,
    Runner,
    TokenVector,
    check_room,
    embed_texts,
    embed_tokens,
    normalize_rows,
    word_vectors,
)
from bertworks.infer.few_rows import quicken_few_rows
from bertworks.infer.fill import Candidate, Cloze, JointCandidate, TargetScore
from bertworks.infer.layers import LayerChoice, choose_layers
from bertworks.infer.saved import carry_task
from bertworks.models.device import usable_device
from bertworks.models.elmo_config import BiLMConfig
from bertworks.models.model import Model
from bertworks.models.seq2seq import TargetIds
from bertworks.text.tokenizer import Tokenizer

PRECISIONS = ("fp32", "int8")

if TYPE_CHECKING:
    from bertworks.infer.generate import Generation, StrategyOptions, Writer
    from bertworks.infer.predict import Predictor


class LoadedModel:
    """A model, its tokenizer and its settings.

    Nothing it does depends on what else is in a batch, but for the last digits: small batches go another way (`few_rows`).
    """

    precision: str = "fp32"

    def __init__(
        self,
        model: Model,
        tokenizer: Tokenizer,
        *,
        window: int | None = None,
        settings: SentenceSettings | None = None,
        directory: Path | None = None,
        device: str | torch.device = "cpu",
        batch_tokens: int | None = None,
        precision: str = "fp32",
    ) -> None:
        self.settings = settings
        self.precision = precision
        self.directory = directory
        self.device = usable_device(device)
        budget = batch_tokens or default_batch_tokens(self.device)
        if self.device.type == "cpu":
            quicken_few_rows(model)
        self._runner = Runner(model.eval().to(self.device), tokenizer, window, self.device, budget)
        check_room(self._runner)

    @property
    def runner(self) -> Runner:
        """Model and tokenizer together, as the parts of `infer` take them."""
        return self._runner

    @property
    def model(self) -> Model:
        return self.runner.model

    @property
    def tokenizer(self) -> Tokenizer:
        return self.runner.tokenizer

    @property
    def window(self) -> int | None:
        """The longest sequence that runs at once, special tokens included; longer texts run in several windows."""
        return self.runner.window

    @overload
    def embed(
        self,
        texts: str | Sequence[str],
        *,
        layers: str | int = ...,
        pooling: Literal["mean", "cls", "max"] | None = ...,
        normalize: bool | None = ...,
        report: EmbedReport | None = ...,
        progress: Progress | None = ...,
    ) -> np.ndarray: ...

    @overload
    def embed(
        self,
        texts: str | Sequence[str],
        *,
        layers: str | int = ...,
        pooling: str | None = ...,
        normalize: bool | None = ...,
        report: EmbedReport | None = ...,
        progress: Progress | None = ...,
    ) -> np.ndarray | list[np.ndarray]: ...

    def embed(
        self,
        texts: str | Sequence[str],
        *,
        layers: str | int = "last",
        pooling: str | None = None,
        normalize: bool | None = None,
        report: EmbedReport | None = None,
        progress: Progress | None = None,
    ) -> np.ndarray | list[np.ndarray]:
        """One vector per text: float32 (n, width), or (width,) for a single string.

        layers     last | first | second-to-last | sum-last-4 | concat-last-4 | sum-all | a number from 0 (embeddings)
        pooling    mean | cls | max; none gives a list of (tokens, width) arrays, special tokens included.
                   Default: what the model was made for, else mean.
        normalize  scale to length 1. Default: what the model was made for where layers and pooling are its own
                   (all-MiniLM-L6-v2 does), else no.
        """
        single = isinstance(texts, str)
        items = strings(texts)
        own = self.settings.pooling if self.settings is not None else "mean"
        pooling = choice(pooling or own, (*POOLINGS[:4],), "pooling")
        selected = self._layers(layers)
        report = report if report is not None else EmbedReport()
        if pooling == "none":
            encodings = self.tokenizer.encode_batch(items, special=False)
            ragged = embed_tokens(self.runner, encodings, layers=selected, report=report, progress=progress)
            ragged = [normalize_rows(rows) for rows in ragged] if normalize else ragged
            return ragged[0] if single else ragged
        vectors = embed_texts(
            self.runner,
            items,
            layers=selected,
            pooling=pooling,
            report=report,
            progress=progress,
        )
        if normalize is None:
            is_own = self.settings is not None and selected == self._layers("last") and pooling == self.settings.pooling
            normalize = is_own and self.settings is not None and self.settings.normalize
        if normalize:
            vectors = normalize_rows(vectors)
        return vectors[0] if single else vectors

    def embed_tokens(
        self,
        texts: Sequence[str],
        *,
        layers: str | int = "last",
        report: EmbedReport | None = None,
        progress: Progress | None = None,
    ) -> list[list[TokenVector]]:
        """Every token of every text with its offsets and vector, special tokens included."""
        items = strings(texts)
        encodings = self.tokenizer.encode_batch(items, special=False)
        arrays = embed_tokens(self.runner, encodings, layers=self._layers(layers), report=report, progress=progress)
        prefix, suffix = self.runner.prefix, self.runner.suffix
        results = []
        for encoding, rows in zip(encodings, arrays, strict=True):
            names = self.tokenizer.tokens(np.concatenate([prefix, encoding.ids, suffix]))
            special = np.zeros((1, 2), dtype=encoding.offsets.dtype)
            places = np.concatenate(
                [special.repeat(len(prefix), 0), encoding.offsets, special.repeat(len(suffix), 0)]
            ).tolist()
            results.append(
                [
                    TokenVector(name, start, end, row)
                    for name, (start, end), row in zip(names, places, rows, strict=True)
                ]
            )
        return results

    def embed_words(
        self,
        texts: Sequence[str] | Sequence[Sequence[str]],
        *,
        layers: str | int = "last",
        report: EmbedReport | None = None,
        progress: Progress | None = None,
    ) -> list[list[TokenVector]]:
        """Every word of every text with its offsets and the mean vector of its tokens.

        A text is a string (words are the tokenizer's) or a list of words (yours; offsets are then within each word).
        """
        if isinstance(texts, str):
            texts = [texts]
        encodings = [
            self.tokenizer.encode(text, special=False)
            if isinstance(text, str)
            else self.tokenizer.encode_words(text, special=False)
            for text in texts
        ]
        arrays = embed_tokens(self.runner, encodings, layers=self._layers(layers), report=report, progress=progress)
        before = len(self.runner.prefix)
        return [
            word_vectors(text, encoding, rows[before : before + len(encoding)])
            for text, encoding, rows in zip(texts, encodings, arrays, strict=True)
        ]

    @overload
    def fill(self, text: str, *, top_k: int = ...) -> list[list[Candidate]]: ...
    @overload
    def fill(self, text: str, *, top_k: int = ..., joint: Literal[True]) -> list[JointCandidate]: ...
    @overload
    def fill(self, text: str, *, targets: Sequence[str]) -> list[TargetScore]: ...

    def fill(
        self, text: str, *, top_k: int = 5, joint: bool = False, targets: Sequence[str] | None = None
    ) -> list[list[Candidate]] | list[JointCandidate] | list[TargetScore]:
        """What stands behind each [MASK]; `joint` fills all masks together; `targets` are scored whole."""
        if top_k < 1:
            raise UsageError(f"top_k is {top_k}; it must be at least 1")
        cloze = Cloze(self.runner)
        if targets is not None:
            return cloze.score_targets(text, targets)
        return cloze.fill_jointly(text, top_k=top_k) if joint else cloze.fill(text, top_k=top_k)

    @overload
    def generate(  # type: ignore[overload-overlap]  # a string is a sequence of strings too
        self,
        prompts: str,
        *,
        max_tokens: int | None = ...,
        on_text: Callable[[str], None] | None = ...,
        **options: Unpack[StrategyOptions],
    ) -> list[Generation]: ...
    @overload
    def generate(
        self,
        prompts: Sequence[str],
        *,
        max_tokens: int | None = ...,
        on_text: Callable[[str], None] | None = ...,
        **options: Unpack[StrategyOptions],
    ) -> list[list[Generation]]: ...

    def generate(
        self,
        prompts: str | Sequence[str],
        *,
        max_tokens: int | None = None,
        on_text: Callable[[str], None] | None = None,
        **options: Unpack[StrategyOptions],
    ) -> list[Generation] | list[list[Generation]]:
        """Continue prompts, or translate sources: `num` texts, the best first, for one prompt or for each of several.

        Without more, the most probable token at every step. `on_text` gets the text of a single prompt piece by piece.

        beam                      keep that many beginnings side by side
        length_penalty            beam: a score is a log probability divided by the length to this power (1)
        coverage_penalty          beam: what it costs to leave words of the source out (0)
        top_k, top_p, temperature draw from the k likeliest tokens, from the likeliest with probability p, more or less freely
        num                       how many texts for each prompt (1)
        seed                      with the prompt's place settles what is drawn (0)
        """
        from bertworks.infer.generate import choose_strategy

        strategy = choose_strategy(**options)
        found = self.writer.write(strings(prompts), strategy, max_tokens=max_tokens, on_text=on_text)
        return found[0] if isinstance(prompts, str) else found

    @cached_property
    def writer(self) -> Writer:
        """What writes texts, for a model that can."""
        from bertworks.infer.generate import PromptWriter

        ids = TargetIds(end=_ending(self.model, self.tokenizer))
        return PromptWriter(self.model, self.tokenizer, ids=ids, device=self.device)

    def attend(self, text: str, pair: str | None = None) -> Attention:
        """The attention weights of every layer and head."""
        return attend(self.runner, text, pair)

    def predict(self, rows: Any) -> Any:
        """What a fine-tuned model says: one prediction per row, or one for a single row.

        What a row is depends on the task (`bertworks.infer.rows`): a text, a pair as a tuple, a question with its
        context, words. `predictor` has more: labels, streams of rows, figures of labelled examples.
        """
        return self.predictor.predict(rows)

    @cached_property
    def predictor(self) -> Predictor:
        """What the model was fine-tuned for."""
        from bertworks.infer.predict import Predictor

        return Predictor(self)

    def save(self, directory: str | Path) -> None:
        """Write a Hugging Face directory (a sentence-transformers one where this is an embedding model)."""
        carry_task(self.directory, directory)
        if self.precision == "int8":
            from bertworks.infer.quantize import save_int8

            save_int8(self.model, self.tokenizer, directory, settings=self.settings)
        else:
            hub.save(self.model, self.tokenizer, Path(directory), settings=self.settings)

    def _layers(self, layers: str | int) -> LayerChoice:
        return choose_layers(layers, self.model.num_layers)


def load(
    model: str | Path = "minilm",
    *,
    revision: str | None = None,
    device: str = "cpu",
    precision: str | None = None,
    batch_tokens: int | None = None,
) -> LoadedModel:
    """Load an alias (`minilm`), a model directory or a Hub id.

    precision  fp32, or int8: quicker and a little less exact, on a CPU. Default: what the directory was made for
               (`bertworks quantize` makes int8 ones), else fp32
    """
    choice(precision or "fp32", PRECISIONS, "precision")
    if batch_tokens is not None and batch_tokens < 1:
        raise UsageError(f"batch_tokens is {batch_tokens}; it must be at least 1")
    directory = hub.resolve(model, revision)
    if is_translation(directory):
        if precision == "int8":
            raise UsageError(f"{directory} is a translator, which runs in fp32 only")
        from bertworks.infer.translator import LoadedTranslator

        return LoadedTranslator(load_translation(directory), device=device)
    loaded = hub.load(directory)
    if isinstance(loaded.model.config.body, BiLMConfig):
        if precision == "int8":
            raise UsageError(f"{directory} is a pair of recurrent language models, which run in fp32 only")
        from bertworks.infer.bilm import LoadedBiLM

        return LoadedBiLM(
            loaded.model,
            loaded.tokenizer,
            name=loaded.directory.resolve().name,
            directory=loaded.directory,
            device=device,
            batch_tokens=batch_tokens,
        )
    return LoadedModel(
        loaded.model,
        loaded.tokenizer,
        window=loaded.window,
        settings=loaded.settings,
        directory=loaded.directory,
        device=device,
        batch_tokens=batch_tokens,
        precision=_to_precision(loaded.model, loaded.directory, precision, device),
    )


def _to_precision(model: Model, directory: Path, precision: str | None, device: str) -> str:
    """Put the model into the precision that is asked for, or that its directory was made for."""
    if precision == "fp32" or (precision is None and not (directory / INT8_SAFETENSORS).exists()):
        return "fp32"
    from bertworks.infer.quantize import float_layers_of, quantize

    float_layers = float_layers_of(directory)
    if precision is None and float_layers is None:
        return "fp32"
    if usable_device(device).type != "cpu":
        raise UsageError(f"int8 is for the CPU, not for {device!r}; use fp32 there")
    quantize(model, float_layers=float_layers or ())
    return "int8"


def _ending(model: Model, tokenizer: Tokenizer) -> tuple[int, ...]:
    """What ends a text: the token that the model's configuration names, or the tokenizer, or the one after every text."""
    named = dict(model.config.source).get("eos_token_id")
    if isinstance(named, list):
        return tuple(named)
    suffix = tokenizer.template.suffix
    for token in (named, tokenizer.eos_id, int(suffix[-1]) if len(suffix) else None):
        if isinstance(token, int):
            return (token,)
    return ()


def strings(texts: str | Sequence[str]) -> list[str]:
    """One text or several as a list, every item of which is a text."""
    items = [texts] if isinstance(texts, str) else list(texts)
    for index, item in enumerate(items):
        if not isinstance(item, str):
            raise UsageError(f"text {index} is {type(item).__name__}, not a string")
    return items
