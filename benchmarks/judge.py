"""How a pretrained model is judged, whatever it was trained on and by whom.

accuracy, loss    masked tokens (15 %) of held-out documents in pieces of 128 tokens
bits a byte       the loss over the bytes of the masked text; spaces count for no tokenizer
masked entities   Chinese: whole entries of the titles' lexicon are masked, and only their tokens count
SST-2             dev accuracy of a logistic regression on the frozen mean-pooled last layer
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.embed import read_pairs
from benchmarks.studies import CORPORA

LENGTH = 128
STSB_PAIRS = 1500  # all of them
TOKENS = 4096  # in one forward pass


def judge(directory: Path, corpus_path: Path, data: Path) -> dict[str, float]:
    """The figures of a model directory; those of tokens only where it has a masked-LM head."""
    from bertworks import hub
    from bertworks.data.pretraining import Lexicon
    from bertworks.train.maskers import EVALUATION_MASKING

    loaded = hub.load(directory)
    found: dict[str, float] = {}
    if "mlm" in loaded.model.heads:
        guess = guess_of(loaded.model.eval())
        found |= masked_tokens(guess, corpus_path, EVALUATION_MASKING, None)
        if corpus_path.name == "zh":
            lexicon = Lexicon.from_file(data / "corpus" / "titles-zh.txt.xz", loaded.tokenizer)
            entities = masked_tokens(guess, corpus_path, replace(EVALUATION_MASKING, unit="lexicon"), lexicon)
            found["entity_accuracy"] = entities["accuracy"]
    if corpus_path.name.startswith("en"):
        found["sst2"] = sst2(directory, data)
    return found


def by_frequency(corpus_path: Path) -> dict[str, float]:
    """The figures of one who knows how frequent each token of the training text is, and nothing else."""
    import torch

    from bertworks.data.corpus import Corpus
    from bertworks.data.pretraining import split_documents
    from bertworks.train.evaluate import token_counts
    from bertworks.train.maskers import EVALUATION_MASKING

    corpus = Corpus.open(corpus_path)
    training, _ = split_documents(corpus, CORPORA[corpus_path.name].held_out)
    logits = torch.from_numpy(token_counts(corpus, training) + 1.0).log()  # (V,)

    def guess(batch: Any) -> Any:
        return logits.expand(len(batch.tensors["targets"]), -1)  # (M, V)

    return masked_tokens(guess, corpus_path, EVALUATION_MASKING, None)


def guess_of(model: Any) -> Callable[[Any], Any]:
    """The logits (M, V) that a model has at the masked places of a batch."""
    return lambda batch: model.logits(batch.packed, "mlm", rows=batch.rows).float()


def masked_tokens(guess: Callable[[Any], Any], corpus_path: Path, masking: Any, lexicon: Any) -> dict[str, float]:
    """Guesses on the corpus' held-out documents; with a lexicon, only tokens of entries of several tokens count."""
    import torch
    import torch.nn.functional as F

    from bertworks.data.corpus import Corpus
    from bertworks.data.pretraining import Masker, SinglePieces, share, split_documents
    from bertworks.objectives.masked_lm import MaskedLM

    corpus = Corpus.open(corpus_path)
    tokenizer = corpus.tokenizer()
    _, held_out = split_documents(corpus, CORPORA[corpus_path.name].held_out)
    source = SinglePieces(corpus, tokenizer, LENGTH, documents=held_out)
    objective = MaskedLM(Masker(masking, tokenizer, lexicon=lexicon))
    num_bytes = token_bytes(tokenizer)
    loss = correct = count = size = 0.0
    numbers = np.arange(len(source.lengths))
    for part in share(source.lengths, numbers, rank=0, world=1, micro_tokens=TOKENS):
        rows = source.take(part, 0)
        batch = objective.prepare(rows, 1.0)
        assert batch.rows is not None
        with torch.inference_mode():
            logits = guess(batch)  # (M, V)
            targets = batch.tensors["targets"]
            losses = F.cross_entropy(logits, targets, reduction="none").double().numpy()
            right = (logits.argmax(-1) == targets).numpy()
        counted = np.ones(len(right), np.bool_)
        if lexicon is not None:
            unit = lexicon.match(rows.ids, rows.lengths)
            counted = np.bincount(unit)[unit[batch.rows.index.numpy()]] > 1
        loss, correct = loss + losses[counted].sum(), correct + right[counted].sum()
        count, size = count + counted.sum(), size + num_bytes[targets.numpy()[counted]].sum()
    bits = loss / np.log(2) / size
    return {"accuracy": float(correct / count), "loss": float(loss / count), "bits_per_byte": float(bits)}


def token_bytes(tokenizer: Any) -> np.ndarray:
    """(V,): how many bytes of text each token stands for, without the space before it."""
    from bertworks.data.pretraining.words import byte_values

    vocabulary = [tokenizer.token(number) for number in range(tokenizer.vocab_size)]
    spelled = byte_values()
    if tokenizer.kind == "BPE" and all(character in spelled for token in vocabulary[300:400] for character in token):
        return np.array([len(token.removeprefix("Ġ")) for token in vocabulary])  # a character is a byte
    return np.array([len(token.removeprefix("##").encode()) for token in vocabulary])


def sst2_rows(data: Path, name: str) -> tuple[list[str], list[int]]:
    """The texts and labels of `train` or `dev`."""
    lines = (data / "sst2" / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.rsplit("\t", 1) for line in lines]
    return [text for text, _ in rows], [int(label) for _, label in rows]


def sst2(directory: Path, data: Path) -> float:
    """Dev accuracy of a logistic regression on frozen vectors."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    import bertworks

    model = bertworks.load(str(directory))
    splits = []
    for name in ("train", "dev"):
        texts, labels = sst2_rows(data, name)
        splits.append((model.embed(texts, pooling="mean"), labels))
    scaler = StandardScaler().fit(splits[0][0])
    head = LogisticRegression(max_iter=2000, C=0.1).fit(scaler.transform(splits[0][0]), splits[0][1])
    return float(head.score(scaler.transform(splits[1][0]), splits[1][1]))


def stsb(embed: Callable[[list[str]], Any], data: Path) -> tuple[float, Any]:
    """Spearman's correlation of cosines and scores on STS-B's dev set, and the vectors, first and second texts in turn."""
    from scipy.stats import spearmanr

    texts, scores = read_pairs(data, STSB_PAIRS)
    vectors = np.asarray(embed(texts))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return float(spearmanr((unit[0::2] * unit[1::2]).sum(axis=1), scores).statistic), vectors
