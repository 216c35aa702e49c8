"""Model directories: round trips, strictness, and one clear sentence for each damage."""

from __future__ import annotations

import json
import logging
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from bertworks.errors import CheckpointError, ModelError, OutputError
from bertworks.hub.checkpoint import Unfilled, load_model, load_module, load_report, save_model
from bertworks.hub.tensors import read_tensors
from bertworks.models.config import (
    EmbeddingConfig,
    HeadConfig,
    LayerConfig,
    ModelConfig,
    PositionConfig,
    TransformerConfig,
)
from bertworks.models.model import Model
from bertworks.models.seq2seq import EncoderDecoder, EncoderDecoderConfig
from bertworks.nn.packed import Packed

HIDDEN, VOCABULARY, LAYERS = 12, 31, 2
BATCH = Packed.from_sequences([[1, 2, 3, 4, 5], [6, 7, 8], [9]])


def tiny(family: str = "bert", **positions: object) -> ModelConfig:
    return ModelConfig(
        family=family,
        body=TransformerConfig(
            embeddings=EmbeddingConfig(vocab_size=VOCABULARY, type_vocab_size=2),
            positions=PositionConfig(max_position_embeddings=17, **positions),  # type: ignore[arg-type]
            layer=LayerConfig(hidden_size=HIDDEN, num_attention_heads=3, intermediate_size=20),
            num_hidden_layers=LAYERS,
        ),
        heads=(
            HeadConfig(
                task="mlm", reads="tokens", num_labels=VOCABULARY, transform_size=HIDDEN, transform_norm=True, tied=True
            ),
        ),
    )


def bare(family: str = "bert") -> ModelConfig:
    return replace(tiny(family), heads=(), pooler_act="tanh")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A small BERT without heads, saved."""
    path = tmp_path / "model"
    save_model(Model(bare()), path)
    return path


def hidden(model: Model) -> Tensor:
    with torch.no_grad():
        return model.eval().body(BATCH).last


def error_of(path: Path) -> str:
    """The one sentence that loading `path` gives."""
    with pytest.raises(CheckpointError) as caught:
        load_model(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


# -- round trips -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "config",
    [tiny(), bare(), tiny("bertworks"), replace(tiny("bertworks"), pooler_act="tanh"), tiny("ernie")],
    ids=lambda c: c.family,
)
def test_a_saved_model_is_loaded_as_it_was(
    config: ModelConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = Model(config)
    save_model(model, tmp_path)
    again = load_model(tmp_path)
    assert again.config == replace(config, source=again.config.source)
    assert not again.training
    assert torch.equal(hidden(model), hidden(again))
    for (name, ours), (other, theirs) in zip(model.named_parameters(), again.named_parameters(), strict=True):
        assert name == other
        assert torch.equal(ours, theirs)
        assert theirs.requires_grad
    assert not caplog.records
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.safetensors"]


@pytest.mark.parametrize("relative", ["none", "buckets", "keys", "keys_queries", "rotary"])
@pytest.mark.parametrize("absolute", ["none", "learned", "sinusoidal"])
@pytest.mark.parametrize("causal", [False, True])
def test_our_own_format_holds_every_kind_of_position(
    absolute: str, relative: str, causal: bool, tmp_path: Path
) -> None:
    config = tiny("bertworks", absolute=absolute, relative=relative)
    config = replace(config, body=replace(config.body, causal=causal), source=(("note", [1, {"a": None}]),))
    model = Model(config)
    save_model(model, tmp_path)
    again = load_model(tmp_path)
    assert again.config == config
    assert not any(tensor.is_meta for tensor in (*again.parameters(), *again.buffers()))
    assert torch.equal(hidden(model), hidden(again))


def test_a_saved_model_opens_in_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    model = Model(replace(tiny(), pooler_act="tanh"))  # their masked-LM class has none, so it is not written
    save_model(model, tmp_path)
    theirs, info = transformers.BertForMaskedLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert not info["mismatched_keys"]
    ids = BATCH.input_ids[:5]
    with torch.no_grad():
        expected = theirs.eval().bert(ids[None]).last_hidden_state[0]
    torch.testing.assert_close(hidden(model)[:5], expected, atol=1e-5, rtol=0)


def test_loading_makes_no_copies_and_leaves_the_file_alone(directory: Path) -> None:
    before = (directory / "model.safetensors").read_bytes()
    model = load_model(directory)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)  # as an optimiser does
    assert (directory / "model.safetensors").read_bytes() == before


def test_a_model_can_be_saved_over_the_file_it_came_from(directory: Path) -> None:
    model = load_model(directory)
    with torch.no_grad():
        model.body.embeddings.tokens.weight.mul_(2.0)
    expected = hidden(model)
    save_model(model, directory)
    assert torch.equal(hidden(model), expected)  # the mapped old file lives on behind the new name
    assert torch.equal(hidden(load_model(directory)), expected)


def test_a_shared_parameter_stays_shared(tmp_path: Path) -> None:
    config = tiny("bertworks")

    class Tied(Model):
        def __init__(self, config: ModelConfig) -> None:
            super().__init__(config)
            self.body.blocks[1].attention.out.weight = self.body.blocks[0].attention.out.weight

    from bertworks.hub import checkpoint

    model = Tied(config)
    save_model(model, tmp_path)
    assert "body.blocks.1.attention.out.weight" not in load_file(tmp_path / "model.safetensors")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(checkpoint.KINDS, "model", (ModelConfig, Tied))
        again = load_model(tmp_path)
    assert again.body.blocks[1].attention.out.weight is again.body.blocks[0].attention.out.weight
    assert torch.equal(hidden(model), hidden(again))


def test_an_encoder_decoder(tmp_path: Path) -> None:
    body = tiny("bertworks").body
    decoder = replace(body, causal=True, cross_attention=True)
    model = EncoderDecoder(EncoderDecoderConfig(encoder=body, decoder=decoder)).eval()
    save_model(model, tmp_path)
    again = load_module(tmp_path)
    assert isinstance(again, EncoderDecoder)
    assert again.config == model.config
    assert again.decoder.embeddings.tokens.weight is again.encoder.embeddings.tokens.weight
    with torch.no_grad():
        assert torch.equal(model(BATCH, BATCH), again(BATCH, BATCH))
    with pytest.raises(ModelError, match="holds a model of the kind EncoderDecoder"):
        load_model(tmp_path)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_become_float32_unless_asked_otherwise(dtype: torch.dtype, tmp_path: Path) -> None:
    model = Model(bare())
    save_model(model, tmp_path, dtype=dtype)
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == str(dtype).removeprefix("torch.")
    assert load_report(tmp_path).dtypes == (str(dtype).removeprefix("torch."),)
    again = load_model(tmp_path)
    assert {parameter.dtype for parameter in again.parameters()} == {torch.float32}
    torch.testing.assert_close(hidden(again), hidden(model), atol=0.1, rtol=0)
    kept = load_model(tmp_path, dtype=dtype)
    assert {parameter.dtype for parameter in kept.parameters()} == {dtype}


def split(directory: Path, suffix: str, *, legacy: bool = False, shards: int = 1) -> None:
    """Turn model.safetensors into another set of weight files."""
    tensors = load_file(directory / "model.safetensors")
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    (directory / "model.safetensors").unlink()
    stem = "model" if suffix == "safetensors" else "pytorch_model"
    names = sorted(tensors)
    places = {}
    for number in range(shards):
        file = f"{stem}.{suffix}" if shards == 1 else f"{stem}-{number + 1:05}-of-{shards:05}.{suffix}"
        part = {name: tensors[name] for name in names[number::shards]}
        places.update(dict.fromkeys(part, file))
        if suffix == "safetensors":
            save_file(part, directory / file)
        else:
            torch.save(part, directory / file, _use_new_zipfile_serialization=not legacy)
    if shards > 1:
        (directory / f"{stem}.{suffix}.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize(("suffix", "legacy"), [("safetensors", False), ("bin", False), ("bin", True)])
def test_every_kind_of_weight_file_is_read(directory: Path, suffix: str, legacy: bool, shards: int) -> None:
    expected = hidden(load_model(directory))
    split(directory, suffix, legacy=legacy, shards=shards)
    assert len(load_report(directory).files) == shards
    assert torch.equal(hidden(load_model(directory)), expected)


def test_old_names_of_norms_are_read(directory: Path) -> None:
    expected = hidden(load_model(directory))
    file = directory / "model.safetensors"
    tensors = load_file(file)
    old = {}
    for name, tensor in tensors.items():
        if "LayerNorm" in name:
            name = name.replace(".weight", ".gamma").replace(".bias", ".beta")
        old[name] = tensor.clone()
    assert old.keys() != tensors.keys()
    save_file(old, file)
    assert torch.equal(hidden(load_model(directory)), expected)


def test_building_without_weights_loads_no_compiler() -> None:
    """Drawing random numbers on PyTorch's meta device imports 800 modules; the first text would wait for them."""
    program = (
        "import sys, torch; from tests.hub.test_checkpoint import *\n"
        "before = len(sys.modules)\n"
        "with Unfilled(): model = Model(tiny('bertworks', absolute='sinusoidal', relative='keys'))\n"
        "assert any(p.is_meta for p in model.parameters()); assert not any(b.is_meta for b in model.buffers())\n"
        "assert len(sys.modules) - before < 50, len(sys.modules) - before\n"
    )
    subprocess.run(
        [sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )


def test_unfilled_leaves_nothing_behind() -> None:
    with Unfilled():
        assert torch.empty(2, 3).is_meta
        assert not torch.empty(2, 3, device="cpu").is_meta
    assert not torch.empty(2, 3).is_meta


# -- what loading says -----------------------------------------------------------------------------------------------


def test_report(directory: Path) -> None:
    report = load_report(directory)
    assert report.problem is None
    assert report.model_type == "bert"
    assert report.config.body.layer.hidden_size == HIDDEN
    assert report.num_parameters == sum(parameter.numel() for parameter in Model(bare()).parameters())
    assert report.files == (directory / "model.safetensors",)
    assert report.dtypes == ("float32",)
    assert report.missing == report.mis_shaped == report.unexpected == report.ignored == ()


def edit(directory: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    file = directory / "model.safetensors"
    tensors = {name: tensor.clone() for name, tensor in load_file(file).items()}
    change(tensors)
    save_file(tensors, file)


def test_unexpected_tensors_are_logged_once(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    edit(directory, lambda tensors: tensors.update({f"stray.{i}": torch.ones(i + 1) for i in range(7)}))
    with caplog.at_level(logging.WARNING):
        load_model(directory)
    (record,) = caplog.records
    assert "7 tensors have no place in the model" in record.getMessage()
    assert "stray.0, stray.1, stray.2, stray.3, stray.4 and 2 more" in record.getMessage()
    assert len(load_report(directory).unexpected) == 7


def test_buffers_that_carry_nothing_are_not_mentioned(directory: Path, caplog: pytest.LogCaptureFixture) -> None:
    edit(directory, lambda tensors: tensors.update({"embeddings.position_ids": torch.arange(17)[None]}))
    load_model(directory)
    assert not caplog.records
    assert load_report(directory).ignored == ("embeddings.position_ids",)


def test_missing_tensors_are_named(directory: Path) -> None:
    def remove(tensors: dict[str, Tensor]) -> None:
        for name in [name for name in tensors if "layer.1" in name]:
            del tensors[name]

    edit(directory, remove)
    message = error_of(directory)
    assert "lacks 16 of the tensors" in message
    assert "encoder.layer.1.attention.self.query.weight" in message
    assert "and 11 more" in message


def test_tensors_of_a_wrong_shape_are_named_with_both_shapes(directory: Path) -> None:
    edit(directory, lambda tensors: tensors.update({"embeddings.word_embeddings.weight": torch.ones(7, HIDDEN)}))
    message = error_of(directory)
    assert f"embeddings.word_embeddings.weight is [7, {HIDDEN}], must be [{VOCABULARY}, {HIDDEN}]" in message


def test_a_part_of_a_stacked_tensor_is_named_as_it_is_called_in_the_file(directory: Path) -> None:
    name = "encoder.layer.0.attention.self.key.weight"
    edit(directory, lambda tensors: tensors.update({name: torch.ones(HIDDEN, 5)}))
    assert f"{name} is [{HIDDEN}, 5], must be [{HIDDEN}, {HIDDEN}]" in error_of(directory)


# -- damages ---------------------------------------------------------------------------------------------------------


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    assert "does not exist" in error_of(tmp_path / "nowhere")


def test_a_file_instead_of_a_directory(directory: Path) -> None:
    assert "is a file; give the directory" in error_of(directory / "model.safetensors")


def test_an_empty_directory(tmp_path: Path) -> None:
    assert "is empty" in error_of(tmp_path)


def test_no_config(directory: Path) -> None:
    (directory / "config.json").unlink()
    assert "has no config.json, so it is not a model directory; it has: model.safetensors" in error_of(directory)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{", "is not valid JSON"),
        (b"\xff\xfe\xff", "is not valid JSON"),
        (b"[1, 2]", "must hold a JSON object"),
        (b"{}", "has no model_type; known: bert, distilbert"),
        (b'{"model_type": "brt"}', "unknown model_type 'brt' (did you mean 'bert'?); known: bert, distilbert"),
        (b'{"model_type": ["bert"]}', "unknown model_type ['bert']"),
        (b'{"model_type": "bert", "hidden_size": 7, "num_attention_heads": 2}', "hidden_size 7 is not a multiple"),
        (b'{"model_type": "bertworks", "kind": "toaster"}', "unknown kind 'toaster'; known: model"),
        (b'{"model_type": "bertworks", "family": "bertworks", "bdy": {}}', "unknown key bdy (did you mean 'body'?)"),
    ],
)
def test_a_config_that_is_wrong(directory: Path, content: bytes, says: str) -> None:
    (directory / "config.json").write_bytes(content)
    assert says in error_of(directory)


def test_no_weights(directory: Path) -> None:
    (directory / "model.safetensors").rename(directory / "tf_model.h5")
    message = error_of(directory)
    assert "holds no weights: looked for model.safetensors" in message
    assert "tf_model.h5" in message


@pytest.mark.parametrize("kept", [0, 5, 200, -1])
def test_cut_off_safetensors(directory: Path, kept: int) -> None:
    file = directory / "model.safetensors"
    file.write_bytes(file.read_bytes()[:kept])
    message = error_of(directory)
    assert str(file) in message
    assert "cut off or damaged" in message or "is an empty file" in message


def test_a_corrupt_header(directory: Path) -> None:
    file = directory / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[8:40] = b"x" * 32
    file.write_bytes(data)
    assert "cut off or damaged" in error_of(directory)


def test_a_git_lfs_pointer(directory: Path) -> None:
    (directory / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    assert "git lfs pull" in error_of(directory)


def test_a_shard_that_is_missing(directory: Path) -> None:
    split(directory, "safetensors", shards=3)
    (directory / "model-00002-of-00003.safetensors").unlink()
    assert "names 3 files, of which 1 are missing: model-00002-of-00003.safetensors" in error_of(directory)


@pytest.mark.parametrize(
    ("index", "says"),
    [
        ({}, "no weight_map"),
        ({"weight_map": {"a": "../../etc/passwd"}}, "outside its directory"),
        ({"weight_map": {"no.such.tensor": "model-00001-of-00003.safetensors"}}, "do not hold: no.such.tensor"),
    ],
)
def test_an_index_that_is_wrong(directory: Path, index: dict[str, object], says: str) -> None:
    split(directory, "safetensors", shards=3)
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    assert says in error_of(directory)


class Evil:
    """A pickle of this runs a program when it is read carelessly."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {self.target}",)


@pytest.mark.parametrize("form", ["archive", "legacy", "pickle"])
def test_code_in_a_pickle_is_never_run(directory: Path, tmp_path: Path, form: str) -> None:
    target, file = tmp_path / "evil", directory / "pytorch_model.bin"
    (directory / "model.safetensors").unlink()
    if form == "pickle":
        file.write_bytes(pickle.dumps({"weight": Evil(target)}))
    else:
        torch.save({"weight": Evil(target)}, file, _use_new_zipfile_serialization=form == "archive")
    message = error_of(directory)
    assert not target.exists()
    assert "which may be code; nothing of it was run" in message
    torch.load(file, weights_only=False) if form != "pickle" else pickle.loads(file.read_bytes())
    assert target.exists(), "the test's own pickle is harmless, so it shows nothing"


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("kept", [0, 1, 50, 2000, -1])
def test_cut_off_bin(directory: Path, legacy: bool, kept: int) -> None:
    split(directory, "bin", legacy=legacy)
    file = directory / "pytorch_model.bin"
    file.write_bytes(file.read_bytes()[:kept])
    message = error_of(directory)
    assert "cut off or damaged" in message or "is an empty file" in message


@pytest.mark.parametrize(
    ("content", "says"),
    [([torch.ones(2)], "must hold tensors by name, not a list"), ({"epoch": 3}, "holds no tensors by name")],
)
def test_a_bin_with_something_else(directory: Path, content: object, says: str) -> None:
    (directory / "model.safetensors").unlink()
    torch.save(content, directory / "pytorch_model.bin")
    assert says in error_of(directory)


def test_text_instead_of_a_bin(directory: Path) -> None:
    (directory / "model.safetensors").unlink()
    (directory / "pytorch_model.bin").write_text("<html>404 not found</html>" * 10)
    assert "cut off or damaged" in error_of(directory)


# -- saving ----------------------------------------------------------------------------------------------------------


def test_an_interrupted_save_leaves_the_old_model_whole(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bertworks.hub import checkpoint

    before = {path.name: path.read_bytes() for path in directory.iterdir()}

    def stop(tensors: object, path: Path, metadata: object) -> None:
        path.write_bytes(b"half a fi")
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint, "save_file", stop)
    with pytest.raises(KeyboardInterrupt):
        save_model(Model(bare()), directory)
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot write"):
        save_model(Model(bare()), tmp_path / "file" / "model")


def test_a_model_that_its_family_cannot_express(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="save it as model_type 'bertworks'"):
        save_model(Model(tiny(absolute="sinusoidal")), tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(CheckpointError, match="unknown family 'brt'"):
        save_model(Model(replace(tiny(), family="brt")), tmp_path)


def test_others_may_read_what_was_saved(directory: Path) -> None:
    modes = {path.stat().st_mode for path in directory.iterdir()}
    assert len(modes) == 1, "the weights have the permissions of any other new file"


def test_tensors_are_read_when_they_are_asked_for(directory: Path) -> None:
    tensors = read_tensors(directory)
    assert tensors.shapes["embeddings.word_embeddings.weight"] == (VOCABULARY, HIDDEN)
    assert torch.equal(tensors["pooler.dense.bias"], load_file(directory / "model.safetensors")["pooler.dense.bias"])
    assert len(tensors) == len(list(tensors)) == len(tensors.dtypes)
    tensors.release("pooler.dense.bias")
    assert "pooler.dense.bias" not in tensors
