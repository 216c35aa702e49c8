"""The int8 engines of `benchmarks.embed`, as a user of each library would make them for a processor without VNNI.

    bertworks_int8              load(..., precision="int8")
    onnxruntime_int8            dynamic, a scale for each output, unsigned weights: products cannot saturate
    onnxruntime_int8_reduced    the same with signed weights of 7 bits, which cannot saturate either
    onnxruntime_int8_signed     the same with signed weights of 8 bits: the quickest, but sums of 16 bits saturate
    ctranslate2_int8            compute_type int8
    openvino, openvino_int8     fp32; and NNCF's quantisation for Transformers, calibrated on 300 sentences of SST-2

Factories and `prepare_*` are as in `embed_engines`.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.embed_engines import (
    Embed,
    Vectors,
    batches_of,
    cache_directory,
    finish,
    in_order,
    make_ctranslate2,
    make_onnxruntime,
    make_tokenizer,
    mean_vectors,
    padded,
    prepare_ctranslate2,
    prepare_onnxruntime,
)

CALIBRATION = 300

# --- ours -------------------------------------------------------------------------------------------------------------


def bertworks_int8(*, model: str, threads: int, **_: Any) -> Embed:
    import torch

    import bertworks
    from bertworks.infer.few_rows import WORTH_BYTES, settle_few_rows

    torch.set_num_threads(threads)
    loaded = bertworks.load(model, precision="int8")
    settle_few_rows(WORTH_BYTES)  # what is judged is what is timed

    def embed(texts: Sequence[str]) -> Vectors:
        vectors: Vectors = loaded.embed(list(texts), layers="last", pooling="mean", normalize=True)
        return vectors

    return embed


# --- ONNX Runtime -----------------------------------------------------------------------------------------------------


def onnxruntime_int8(**options: Any) -> Embed:
    return make_onnxruntime("unsigned.onnx", **options)


def onnxruntime_int8_reduced(**options: Any) -> Embed:
    return make_onnxruntime("reduced.onnx", **options)


def onnxruntime_int8_signed(**options: Any) -> Embed:
    return make_onnxruntime("signed.onnx", **options)


def prepare_onnxruntime_int8(*, model: str, cache: str, **_: Any) -> dict[str, Any]:
    """Quantise the fused graph in three ways; products of two activations stay as they are."""
    from onnx import TensorProto
    from onnxruntime.quantization import QuantType, quantize_dynamic

    notes = prepare_onnxruntime(model=model, cache=cache)
    directory = cache_directory("onnxruntime", model, cache)
    kinds = {
        "unsigned.onnx": (QuantType.QUInt8, False),
        "reduced.onnx": (QuantType.QInt8, True),
        "signed.onnx": (QuantType.QInt8, False),
    }
    logging.getLogger().setLevel(logging.ERROR)  # it advises a step that the optimiser has done
    for name, (weight_type, reduce_range) in kinds.items():
        if not (directory / name).exists():
            working = directory / f"working-{name}"
            quantize_dynamic(
                directory / "model.onnx",
                working,
                per_channel=True,
                weight_type=weight_type,
                reduce_range=reduce_range,
                extra_options={"DefaultTensorType": TensorProto.FLOAT},  # of the optimiser's own operators
            )
            working.replace(directory / name)
    return notes


prepare_onnxruntime_int8_reduced = prepare_onnxruntime_int8_signed = prepare_onnxruntime_int8


# --- CTranslate2 ------------------------------------------------------------------------------------------------------


def ctranslate2_int8(**options: Any) -> Embed:
    return make_ctranslate2("int8", **options)


prepare_ctranslate2_int8 = prepare_ctranslate2  # the weights are rounded when the model is opened


# --- OpenVINO ---------------------------------------------------------------------------------------------------------


def openvino(**options: Any) -> Embed:
    return _openvino("model.xml", **options)


def openvino_int8(**options: Any) -> Embed:
    return _openvino("int8.xml", **options)


def _openvino(file: str, *, model: str, window: int, cache: str, threads: int, **_: Any) -> Embed:
    import openvino as runtime

    settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    compiled = runtime.Core().compile_model(str(cache_directory("openvino", model, cache) / file), "CPU", settings)
    request = compiled.create_infer_request()
    tokenize = make_tokenizer(model, window)

    def embed(texts: Sequence[str], batch_size: int = 32) -> Vectors:
        ids = tokenize(texts)
        pooled: list[Vectors] = []
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        for rows in batches_of(order, batch_size):
            inputs = padded([ids[i] for i in rows])
            request.infer(inputs, share_inputs=True)
            pooled.append(mean_vectors(request.get_output_tensor(0).data, inputs["attention_mask"]))
        return in_order(pooled, order)

    return embed


def prepare_openvino(*, model: str, cache: str, data: str, window: int, **_: Any) -> dict[str, Any]:
    """Convert from PyTorch, and quantise with NNCF: all products, activations calibrated on real sentences."""
    target = cache_directory("openvino", model, cache)
    if not target.exists():
        import nncf
        import openvino as runtime
        import torch
        from transformers import AutoModel

        Path(cache).mkdir(parents=True, exist_ok=True)
        working = Path(tempfile.mkdtemp(dir=cache))
        example = {name: torch.from_numpy(rows) for name, rows in padded([[1, 2, 3, 4], [5, 6, 7]]).items()}
        converted = runtime.convert_model(AutoModel.from_pretrained(model).eval(), example_input=example)
        runtime.save_model(converted, working / "model.xml", compress_to_fp16=False)
        path = Path(data) / "sst2" / "dev.tsv"
        lines = path.read_text(encoding="utf-8").splitlines()[:CALIBRATION]
        tokenize = make_tokenizer(model, window)
        sentences = tokenize([line.rsplit("\t", 1)[0] for line in lines])
        calibration = nncf.Dataset([padded([ids]) for ids in sentences])
        quantised = nncf.quantize(
            converted, calibration, model_type=nncf.ModelType.TRANSFORMER, subset_size=len(sentences)
        )
        runtime.save_model(quantised, working / "int8.xml")
        finish(working, target)
    return {}


prepare_openvino_int8 = prepare_openvino
