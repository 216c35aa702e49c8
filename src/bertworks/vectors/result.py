"""The directory of trained vectors: the vectors, the settings, the figures, a page with plots and a card.

vectors.safetensors  words.tsv       the vectors (see `formats`)
config.toml  metrics.json            every setting, the figures
report.html  README.md               for people
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np

from bertworks.atomic import write_text
from bertworks.config import to_dict, to_toml
from bertworks.errors import OutputError
from bertworks.page import curves, document, facts, scatter, section, soft, table
from bertworks.vectors.train import Trained
from bertworks.vectors.words import WordVectors

SHOWN_WORDS, SHOWN_NEIGHBOURS = 24, 6
LONGEST_DOTS = 1500
NAMES = {
    "skipgram": "skip-gram with negative sampling",
    "cbow": "CBOW with negative sampling",
    "glove": "GloVe",
    "bernoulli": "Bernoulli embeddings",
}
LOSS = {
    "skipgram": "mean loss of a word and a neighbour",
    "cbow": "mean loss of a word",
    "glove": "mean weighted squared error of a pair",
    "bernoulli": "mean bound on the loss of a word",
}


def save_result(trained: Trained, output: Path, files: Sequence[str], seconds: float) -> None:
    """Write the directory `output`; `files` are named as where the text came from."""
    trained.vectors.save(output, "directory")
    try:
        write_text(output / "config.toml", to_toml(trained.config))
        write_text(output / "report.html", _page(trained, output.name, files, seconds))
        write_text(output / "README.md", _card(trained, output.name, files))
        metrics = {
            "task": "vectors",
            "metrics": {"loss": trained.losses[-1], "words_per_second": round(trained.words_per_second)},
            "losses": trained.losses,
            "words": len(trained.vectors),
            "words_read": trained.words_read,
            "seeds": [trained.config.training.seed],
            "data": list(files),
            "model": trained.config.training.algorithm,
            "seconds": round(seconds, 3),
        }
        write_text(output / "metrics.json", json.dumps(metrics, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise OutputError(f"cannot write {output}: {error.strerror or error}") from error


def _numbers(trained: Trained) -> list[tuple[str, str]]:
    return [
        (f"{len(trained.vectors):,}", "words"),
        (f"{trained.vectors.dim}", "numbers each"),
        (f"{trained.words_read:,}", "words read"),
        (f"{len(trained.losses)}", "epochs"),
        (f"{trained.words_per_second:,.0f}", "words a second"),
        (f"{trained.losses[-1]:.4f}", "loss"),
    ]


def _page(trained: Trained, name: str, files: Sequence[str], seconds: float) -> str:
    options = trained.config.training
    epochs = {"loss": [(float(epoch), loss) for epoch, loss in enumerate(trained.losses, start=1)]}
    hogwild = f"{options.threads} threads without locks: another run gives other vectors."
    return document(
        f"Word vectors: {name}",
        f"<h1>{escape(name)}</h1>",
        soft(f"{NAMES[options.algorithm]}, {seconds:,.0f} seconds. {hogwild if options.hogwild else ''}"),
        facts(_numbers(trained)),
        section("Loss", curves(LOSS[options.algorithm].capitalize(), epochs, over="the epochs", dots=True)),
        _uncertainty(trained.vectors),
        section("Neighbours", table(_neighbours(trained.vectors))),
        section("Data", table([("files", ", ".join(files)), ("words read", f"{trained.words_read:,}")])),
        section("Settings", table(_settings(trained))),
    )


def _neighbours(vectors: WordVectors) -> list[tuple[str, str]]:
    """Some words, from frequent to rare, with those near them; the most frequent are mere grammar."""
    numbers = np.unique(np.geomspace(min(100, len(vectors)), len(vectors), SHOWN_WORDS).astype(int) - 1)
    words = [vectors.words[number] for number in numbers]
    return [(word, ", ".join(near.word for near in vectors.similar(word, SHOWN_NEIGHBOURS))) for word in words]


def _uncertainty(vectors: WordVectors) -> str:
    if vectors.deviations is None or vectors.counts is None:
        return ""
    numbers = np.unique(np.linspace(0, len(vectors) - 1, LONGEST_DOTS).astype(int))
    deviations = vectors.deviations[numbers].mean(1)
    points = [
        (float(np.log10(count)), float(deviation), f"{vectors.words[number]}: {count:,} times, ±{deviation:.3f}")
        for number, count, deviation in zip(numbers, vectors.counts[numbers], deviations, strict=True)
    ]
    plot = scatter(
        "Mean standard deviation of a vector's numbers",
        points,
        across="how often the word occurs, as a power of ten",
        up="deviation",
    )
    said = (
        "The posterior of each vector given the context vectors of all words; rare words are less certain. "
        "It does not say how another text would change them."
    )
    return section("Uncertainty", plot, soft(said))


def _settings(trained: Trained) -> list[tuple[str, str]]:
    sections = to_dict(trained.config)
    return [(f"{part}.{key}", str(value)) for part, values in sections.items() for key, value in values.items()]


def _card(trained: Trained, name: str, files: Sequence[str]) -> str:
    options = trained.config.training
    numbers = "\n".join(f"- {what}: {value}" for value, what in _numbers(trained))
    order = (
        f"Trained by {options.threads} threads without locks (`--hogwild`): another run gives other vectors."
        if options.hogwild
        else f"Trained with seed {options.seed}; the same command gives the same vectors on the same kind of processor."
    )
    return f"""# {name}

Word vectors: {NAMES[options.algorithm]}, from {", ".join(files)}.

{numbers}

{order}

Word vectors repeat what their text says about people; `bertworks vectors bias` measures some of it.

```python
from bertworks.vectors import WordVectors

vectors = WordVectors.load("{name}")
vectors.similar("{trained.vectors.words[0]}")
vectors.save("{name}.kv")  # opens with gensim.models.KeyedVectors.load
```

All settings are in `config.toml`, the figures in `metrics.json`, curves and neighbours in `report.html`.
"""
