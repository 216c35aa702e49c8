"""Real pairs through the real default model: the cosines and their correlation are those of `sentence-transformers`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr

from bertworks import hub
from bertworks.data.labelled.read import read
from bertworks.tasks import for_examples
from bertworks.tasks.attach import attach
from bertworks.tasks.run import evaluate_model


def test_similarity_of_real_pairs(shared_data: Path, minilm_directory: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    examples: list[Any] = read(shared_data / "glue" / "STS-B" / "dev.tsv", "similarity").examples[:120]
    loaded = hub.load(minilm_directory)
    task: Any = for_examples("similarity", examples, normalize=True)
    tokenizer = attach(task, loaded.model, loaded.tokenizer)
    evaluated = evaluate_model(task, loaded.model, examples, tokenizer=tokenizer, window=loaded.window)
    cosines = np.array([prediction.similarity for prediction in evaluated.predictions])
    hub.save(loaded.model, tokenizer, tmp_path, settings=task.sentence_settings(loaded.window))
    reference = SentenceTransformer(str(tmp_path), device="cpu")
    first, second = (reference.encode([example.texts[side] for example in examples]) for side in (0, 1))
    theirs = torch.nn.functional.cosine_similarity(torch.from_numpy(first), torch.from_numpy(second)).numpy()
    np.testing.assert_allclose(cosines, theirs, atol=2e-5)
    scores = [example.score for example in examples]
    assert abs(evaluated.figures["spearman"] - spearmanr(scores, theirs).statistic) < 1e-3
    assert evaluated.figures["spearman"] > 0.8
