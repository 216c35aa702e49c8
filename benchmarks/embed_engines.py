"""The fp32 engines of `benchmarks.embed`: texts in, normalised mean-pooled vectors out; those in int8 are in `embed_int8`.

Every factory returns `embed(texts, batch_size=...)`, which gives a (number of texts, hidden_size) float32 array in the
order of the texts. Every engine starts from raw strings and sorts them by length before it cuts batches, so that little
padding is computed; `batch_size` is chosen per engine and workload by the harness's sweep. Bertworks cuts its batches
by itself.

The graph for ONNX Runtime and the model for CTranslate2 are made once and kept in a cache directory (`prepare_*`).
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Embed = Callable[..., Vectors]


# --- ours -------------------------------------------------------------------------------------------------------------


def bertworks(*, model: str, threads: int, **_: Any) -> Embed:
    """Bertworks with its defaults: packed batches, no padding, nothing to tune."""
    import torch

    import bertworks
    from bertworks.infer.few_rows import WORTH_BYTES, settle_few_rows

    torch.set_num_threads(threads)
    loaded = bertworks.load(model)
    settle_few_rows(WORTH_BYTES)  # what is judged is what is timed

    def embed(texts: Sequence[str]) -> Vectors:
        vectors: Vectors = loaded.embed(list(texts), layers="last", pooling="mean", normalize=True)
        return vectors

    return embed


# --- peers on PyTorch -------------------------------------------------------------------------------------------------


def sentence_transformers(*, model: str, threads: int, **_: Any) -> Embed:
    """`encode` sorts by length itself; the model directory says mean pooling and normalisation."""
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(threads)
    loaded = SentenceTransformer(model, device="cpu")

    def embed(texts: Sequence[str], batch_size: int = 32) -> Vectors:
        vectors: Vectors = loaded.encode(
            list(texts),
            batch_size=batch_size,
            normalize_embeddings=True,
            show_progress_bar=False,
            convert_to_numpy=True,
        )
        return vectors

    return embed


def transformers(*, model: str, window: int, threads: int, **_: Any) -> Embed:
    """`AutoModel` as a careful user writes it: sorted, padded per batch, inference mode, default (sdpa) attention."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    torch.set_num_threads(threads)
    tokenizer = AutoTokenizer.from_pretrained(model)
    network = AutoModel.from_pretrained(model).eval()

    def embed(texts: Sequence[str], batch_size: int = 32) -> Vectors:
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        vectors = np.empty((len(texts), network.config.hidden_size), dtype=np.float32)
        with torch.inference_mode():
            for rows in batches_of(order, batch_size):
                inputs = tokenizer(
                    [texts[i] for i in rows], padding=True, truncation=True, max_length=window, return_tensors="pt"
                )
                hidden = network(**inputs).last_hidden_state  # (B, S, H)
                mask = inputs["attention_mask"].unsqueeze(-1)  # (B, S, 1)
                pooled = (hidden * mask).sum(1) / mask.sum(1)  # (B, H)
                vectors[rows] = torch.nn.functional.normalize(pooled, dim=-1).numpy()
        return vectors

    return embed


# --- peers with their own runtime -------------------------------------------------------------------------------------


def onnxruntime(**options: Any) -> Embed:
    """ONNX Runtime on the graph that its transformer optimiser fused; tokenized by `tokenizers`, pooled by numpy."""
    return make_onnxruntime("model.onnx", **options)


def make_onnxruntime(file: str, *, model: str, window: int, cache: str, threads: int, **_: Any) -> Embed:
    """One of the graphs in the cache."""
    import onnxruntime as runtime

    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    path = cache_directory("onnxruntime", model, cache) / file
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    tokenize = make_tokenizer(model, window)

    def embed(texts: Sequence[str], batch_size: int = 32) -> Vectors:
        ids = tokenize(texts)
        pooled: list[Vectors] = []
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        for rows in batches_of(order, batch_size):
            inputs = padded([ids[i] for i in rows])
            (hidden,) = session.run(None, inputs)  # (B, S, H)
            pooled.append(mean_vectors(hidden, inputs["attention_mask"]))
        return in_order(pooled, order)

    return embed


def ctranslate2(**options: Any) -> Embed:
    """CTranslate2's `Encoder`; it has no mean pooling, so that is done outside by numpy, as for ONNX Runtime."""
    return make_ctranslate2("float32", **options)


def make_ctranslate2(compute_type: str, *, model: str, window: int, cache: str, threads: int, **_: Any) -> Embed:
    """In the wanted precision."""
    import ctranslate2 as runtime

    directory = cache_directory("ctranslate2", model, cache)
    encoder = runtime.Encoder(
        str(directory), device="cpu", compute_type=compute_type, inter_threads=1, intra_threads=threads
    )
    tokenize = make_tokenizer(model, window)

    def embed(texts: Sequence[str], batch_size: int = 32) -> Vectors:
        ids = tokenize(texts)
        pooled: list[Vectors] = []
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        for rows in batches_of(order, batch_size):
            hidden = np.asarray(encoder.forward_batch([ids[i] for i in rows]).last_hidden_state)  # (B, S, H)
            lengths = np.array([len(ids[i]) for i in rows])  # (B,)
            pooled.append(mean_vectors(hidden, np.arange(hidden.shape[1]) < lengths[:, None]))
        return in_order(pooled, order)

    return embed


def make_tokenizer(model: str, window: int) -> Callable[[Sequence[str]], list[list[int]]]:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(Path(model) / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(window)
    # The variant without offsets is the quicker one where the installed release has it.
    encode = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)
    return lambda texts: [encoding.ids for encoding in encode(list(texts))]


def padded(rows: Sequence[Sequence[int]]) -> dict[str, NDArray[np.int64]]:
    """What a BERT graph takes: each (B, S)."""
    input_ids = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
    attention_mask = np.zeros_like(input_ids)
    for number, ids in enumerate(rows):
        input_ids[number, : len(ids)] = ids
        attention_mask[number, : len(ids)] = 1
    return {"input_ids": input_ids, "attention_mask": attention_mask, "token_type_ids": np.zeros_like(input_ids)}


def batches_of(order: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    for start in range(0, len(order), batch_size):
        yield list(order[start : start + batch_size])


def mean_vectors(hidden: NDArray[Any], mask: NDArray[Any]) -> Vectors:
    """Normalised mean over the tokens that `mask` marks; as a matrix product, which numpy does quickest."""
    weights = mask.astype(np.float32)  # (B, S)
    mean = np.matmul(weights[:, None, :], hidden)[:, 0]  # (B, H); the length cancels in the normalisation
    vectors: Vectors = mean / np.linalg.norm(mean, axis=1, keepdims=True)
    return vectors


def in_order(pooled: list[Vectors], order: Sequence[int]) -> Vectors:
    flat = np.concatenate(pooled)
    vectors = np.empty_like(flat)
    vectors[np.asarray(order)] = flat
    return vectors


# --- exports and conversions, made once -------------------------------------------------------------------------------


def cache_directory(engine: str, model: str, cache: str) -> Path:
    """Where the prepared model lies: the name changes with the weights and with the releases that made it."""
    makers = {
        "onnxruntime": ("onnxruntime", "torch", "transformers"),
        "ctranslate2": ("ctranslate2", "transformers"),
        "openvino": ("openvino", "nncf", "transformers"),
    }
    digest = hashlib.sha256(repr([version(package) for package in makers[engine]]).encode())
    for name in ("config.json", "model.safetensors"):
        digest.update((Path(model) / name).read_bytes())
    return Path(cache) / f"{engine}-{digest.hexdigest()[:16]}"


def finish(working: Path, target: Path) -> None:
    """Put the finished directory in place; if another run was quicker, its copy is as good."""
    try:
        working.replace(target)
    except OSError:
        shutil.rmtree(working)


def prepare_onnxruntime(*, model: str, cache: str, **_: Any) -> dict[str, Any]:
    """Export with torch, fuse with ONNX Runtime's transformer optimiser, and make sure that it really fused."""
    target = cache_directory("onnxruntime", model, cache)
    if not target.exists():
        import warnings

        import torch
        from onnxruntime.transformers.fusion_options import FusionOptions
        from onnxruntime.transformers.optimizer import optimize_model
        from transformers import AutoModel

        warnings.simplefilter("ignore")
        Path(cache).mkdir(parents=True, exist_ok=True)
        working = Path(tempfile.mkdtemp(dir=cache))
        # The optimiser recognises attention that is spelled out (eager), not torch's fused operator.
        network = AutoModel.from_pretrained(model, attn_implementation="eager").eval()
        config = network.config

        class LastHiddenState(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.network = network

            def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any) -> Any:
                output = self.network(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
                return output.last_hidden_state

        names = ["input_ids", "attention_mask", "token_type_ids"]
        example = torch.tensor([[1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 0, 0]])
        inputs = (example, (example > 0).long(), torch.zeros_like(example))
        axes = {name: {0: "batch", 1: "tokens"} for name in [*names, "last_hidden_state"]}
        plain = working / "plain.onnx"
        torch.onnx.export(
            LastHiddenState(),
            inputs,
            str(plain),
            dynamo=False,
            opset_version=17,
            input_names=names,
            output_names=["last_hidden_state"],
            dynamic_axes=axes,
        )
        optimized = optimize_model(
            str(plain),
            model_type="bert",
            num_heads=config.num_attention_heads,
            hidden_size=config.hidden_size,
            optimization_options=FusionOptions("bert"),
        )
        optimized.save_model_to_file(str(working / "model.onnx"))
        plain.unlink()
        operators = dict(Counter(node.op_type for node in optimized.model.graph.node))
        layers = config.num_hidden_layers
        wanted = {"Attention": layers, "SkipLayerNormalization": 2 * layers, "BiasGelu": layers}
        missing = {
            name: (operators.get(name, 0), count) for name, count in wanted.items() if operators.get(name, 0) != count
        }
        if missing:
            shutil.rmtree(working)
            raise RuntimeError(f"the optimiser did not fuse the whole graph, (found, wanted): {missing}")
        (working / "operators.json").write_text(json.dumps(operators))
        finish(working, target)
    return {"operators": json.loads((target / "operators.json").read_text())}


def prepare_ctranslate2(*, model: str, cache: str, **_: Any) -> dict[str, Any]:
    """Convert with CTranslate2's own converter, weights kept in fp32."""
    target = cache_directory("ctranslate2", model, cache)
    if not target.exists():
        from ctranslate2.converters import TransformersConverter

        Path(cache).mkdir(parents=True, exist_ok=True)
        working = Path(tempfile.mkdtemp(dir=cache))
        TransformersConverter(model).convert(str(working), quantization="float32", force=True)
        finish(working, target)
    return {}
