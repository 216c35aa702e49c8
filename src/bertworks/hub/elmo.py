"""ELMo's published form, read and written: `…options.json` and `…weights.hdf5`, as AllenNLP and its authors' own code have it.

The weights are those of a TensorFlow program. Matrices are transposed; an LSTM's two matrices are one; its gates come in
the order input, candidate, forget, output instead of input, forget, candidate, output, and 1 is added to the forget
gate's bias when it runs, here when it is read. The table has a row for each of 261 characters (`bertworks.text.spelling`).

The files hold no vocabulary and no output layer, so such a model gives vectors and predicts nothing. Its tokenizer only
knows where words are: words are spelt, not looked up. Reading needs `h5py` (the extra `elmo`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer as Backend
from tokenizers import models, processors
from torch import nn

from bertworks.atomic import replacing
from bertworks.config import from_dict
from bertworks.errors import CheckpointError, ConfigError, ModelError, first_few
from bertworks.hub.files import read_object, write_json, writing
from bertworks.models.config import ModelConfig
from bertworks.models.elmo import BiLM, Highway, SpeltWords
from bertworks.models.elmo_config import BiLMConfig
from bertworks.models.model import Model
from bertworks.nn.recurrent import Recurrent
from bertworks.text.spelling import NUM_CHARACTERS
from bertworks.text.tokenizer import Tokenizer
from bertworks.text.word_rules import word_rules

OPTIONS, WEIGHTS = "options.json", "weights.hdf5"
SPECIAL_TOKENS = ("<S>", "</S>", "<UNK>")
INSTALL = "ELMo's weights are an HDF5 file, which needs h5py: pip install 'bertworks[elmo]'"

Arrays = dict[str, NDArray[np.float32]]


def find_elmo(directory: Path) -> tuple[Path, Path] | None:
    """Options and weights where a directory holds ELMo as it is published; None where it does not."""
    options = sorted(directory.glob(f"*{OPTIONS}"))
    weights = sorted(directory.glob(f"*{WEIGHTS}"))
    if not options or not weights or (directory / "config.json").exists():
        return None
    if len(options) > 1 or len(weights) > 1:
        names = [path.name for path in (*options, *weights)]
        raise CheckpointError(f"{directory} holds several models ({first_few(names)}); give each its own directory")
    return options[0], weights[0]


# -- reading -----------------------------------------------------------------------------------------------------------


def load_elmo(options: Path, weights: Path) -> Model:
    """The model of two files, in evaluation mode."""
    model = Model(ModelConfig(family="bertworks", body=read_options(options)))
    arrays = _read_arrays(weights)
    wanted = {name: array.shape for name, array in _arrays(_bilm(model)).items()}
    missing = [name for name in wanted if name not in arrays]
    if missing:
        raise CheckpointError(f"{weights} lacks {len(missing)} of {len(wanted)} arrays: {first_few(missing)}")
    odd = [
        f"{name} is {list(arrays[name].shape)}, must be {list(shape)}"
        for name, shape in wanted.items()
        if arrays[name].shape != shape
    ]
    if odd:
        raise CheckpointError(f"{weights} does not go with {options.name}: {first_few(odd, 3)}")
    _fill(_bilm(model), arrays)
    return model.eval()


def read_options(path: Path) -> BiLMConfig:
    """`options.json` as our configuration."""
    options = read_object(path)
    try:
        characters, lstm = options["char_cnn"], options["lstm"]
        spelling = {
            "num_characters": NUM_CHARACTERS,  # the file counts 261, or 262 with one that means "no word"
            "max_characters": characters["max_characters_per_token"],
            "character_size": characters["embedding"]["dim"],
            "filters": characters["filters"],
            "activation": characters["activation"],
            "num_highway_layers": characters["n_highway"],
        }
        values = {
            "vocab_size": None,
            "spelling": spelling,
            "embedding_size": lstm["projection_dim"],
            "cell_size": lstm["dim"],
            "projection_size": lstm["projection_dim"],
            "num_hidden_layers": lstm["n_layers"],
            "residual": bool(lstm.get("use_skip_connections")),
            "cell_clip": lstm.get("cell_clip"),
            "projection_clip": lstm.get("proj_clip"),
        }
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{path} is not the options of an ELMo with characters: {error} is missing") from error
    try:
        return from_dict(BiLMConfig, values)
    except ConfigError as error:
        raise CheckpointError(f"{path}: {error}") from error


def _read_arrays(path: Path) -> Arrays:
    """Every array of the file by its path in it."""
    h5py = _h5py()
    found: Arrays = {}

    def keep(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = np.asarray(item[...], np.float32)

    try:
        with h5py.File(path, "r") as file:
            file.visititems(keep)
    except OSError as error:
        raise CheckpointError(f"{path} is damaged, or no HDF5 file ({str(error).splitlines()[0]})") from error
    return found


def _fill(model: BiLM, arrays: Arrays) -> None:
    def put(parameter: torch.Tensor, array: NDArray[np.float32]) -> None:
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(np.ascontiguousarray(array)))

    words = model.embeddings
    assert isinstance(words, SpeltWords)
    put(words.tokens.weight, arrays["char_embed"])
    for number, convolution in enumerate(_convolutions(words)):
        put(convolution.weight, arrays[f"CNN/W_cnn_{number}"][0].transpose(2, 1, 0))
        assert convolution.bias is not None
        put(convolution.bias, arrays[f"CNN/b_cnn_{number}"])
    for place, linear in _linears(words).items():
        put(linear.weight, arrays[place.replace("*", "W")].T)
        put(linear.bias, arrays[place.replace("*", "b")])
    for place, layer in _lstms(model).items():
        joined, bias = arrays[f"{place}/W_0"].T, arrays[f"{place}/B"].copy()  # (4 H, E + P), (4 H,)
        size = len(bias) // 4
        bias[2 * size : 3 * size] += 1.0
        width = layer.input_size
        put(layer.get_parameter("weight_ih_l0"), _swap_gates(joined[:, :width]))
        put(layer.get_parameter("weight_hh_l0"), _swap_gates(joined[:, width:]))
        put(layer.get_parameter("bias_ih_l0"), _swap_gates(bias))
        put(layer.get_parameter("bias_hh_l0"), np.zeros_like(bias))
        put(layer.get_parameter("weight_hr_l0"), arrays[f"{place}/W_P_0"].T)


# -- writing -----------------------------------------------------------------------------------------------------------


def save_elmo(model: Model, directory: str | Path) -> None:
    """Write a model of words as `options.json` and `weights.hdf5`; what it predicts has no place there."""
    bilm = _bilm(model)
    config = bilm.config
    if config.spelling is None or config.projection_size is None:
        raise ModelError("only a model of words whose LSTMs have a projection can be written in ELMo's form")
    path = Path(directory)
    spelling = config.spelling
    options = {
        "char_cnn": {
            "activation": spelling.activation,
            "embedding": {"dim": spelling.character_size},
            "filters": [list(pair) for pair in spelling.filters],
            "max_characters_per_token": spelling.max_characters,
            "n_characters": spelling.num_characters + 1,
            "n_highway": spelling.num_highway_layers,
        },
        "lstm": {
            "cell_clip": config.cell_clip,
            "dim": config.cell_size,
            "n_layers": config.num_hidden_layers,
            "proj_clip": config.projection_clip,
            "projection_dim": config.projection_size,
            "use_skip_connections": config.residual,
        },
    }
    h5py = _h5py()
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
        with replacing(path / WEIGHTS) as temporary, h5py.File(temporary, "w") as file:
            for name, array in _arrays(bilm).items():
                file.create_dataset(name, data=array)
    write_json(path / OPTIONS, options)


def _arrays(model: BiLM) -> Arrays:
    """The model's weights under the file's names."""
    words = model.embeddings
    assert isinstance(words, SpeltWords)
    found = {"char_embed": _array(words.tokens.weight)}
    for number, convolution in enumerate(_convolutions(words)):
        found[f"CNN/W_cnn_{number}"] = _array(convolution.weight).transpose(2, 1, 0)[None]
        assert convolution.bias is not None
        found[f"CNN/b_cnn_{number}"] = _array(convolution.bias)
    for place, linear in _linears(words).items():
        found[place.replace("*", "W")] = _array(linear.weight).T
        found[place.replace("*", "b")] = _array(linear.bias)
    for place, layer in _lstms(model).items():
        own = {name: _array(parameter) for name, parameter in layer.named_parameters()}
        both = np.concatenate([own["weight_ih_l0"], own["weight_hh_l0"]], axis=1)
        bias = _swap_gates(own["bias_ih_l0"] + own["bias_hh_l0"])
        size = len(bias) // 4
        bias[2 * size : 3 * size] -= 1.0
        found[f"{place}/W_0"] = _swap_gates(both).T
        found[f"{place}/B"] = bias
        found[f"{place}/W_P_0"] = own["weight_hr_l0"].T
    return found


def word_finder() -> Tokenizer:
    """A tokenizer that finds words and knows none."""
    backend = Backend(models.WordLevel(dict(zip(SPECIAL_TOKENS, range(3), strict=True)), unk_token=SPECIAL_TOKENS[2]))
    backend.pre_tokenizer = word_rules()
    begin, end, unknown = SPECIAL_TOKENS
    backend.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A {end}", pair=f"{begin} $A {end} {begin} $B {end}", special_tokens=[(begin, 0), (end, 1)]
    )
    return Tokenizer(backend, config={"bos_token": begin, "eos_token": end, "unk_token": unknown})


# -- places ------------------------------------------------------------------------------------------------------------


def _convolutions(words: SpeltWords) -> list[nn.Conv1d]:
    return [part for part in words.convolutions if isinstance(part, nn.Conv1d)]


def _linears(words: SpeltWords) -> dict[str, nn.Linear]:
    """The linear layers by their place in the file, with `*` for W (weight) or b (bias)."""
    found = {}
    for number, highway in enumerate(words.highways):
        assert isinstance(highway, Highway)
        found[f"CNN_high_{number}/*_transform"] = highway.transform
        found[f"CNN_high_{number}/*_carry"] = highway.carry
    return {**found, "CNN_proj/*_proj": words.projection}


def _bilm(model: Model) -> BiLM:
    if not isinstance(model.body, BiLM):
        raise ModelError(f"only ELMo has ELMo's form; this model is {model.config.describe()}")
    return model.body


def _lstms(model: BiLM) -> dict[str, nn.LSTM]:
    stacks: list[Recurrent] = [model.forwards, model.backwards]
    return {
        f"RNN_{direction}/RNN/MultiRNNCell/Cell{number}/LSTMCell": layer
        for direction, stack in enumerate(stacks)
        for number, layer in enumerate(stack.layers)
        if isinstance(layer, nn.LSTM)
    }


def _swap_gates(array: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows of four gates with the middle two exchanged; twice is once undone."""
    first, second, third, fourth = np.split(array, 4)
    return np.concatenate([first, third, second, fourth])


def _array(parameter: torch.Tensor) -> NDArray[np.float32]:
    return parameter.detach().float().cpu().numpy()


def _h5py() -> Any:
    try:
        import h5py
    except ModuleNotFoundError as error:
        raise ModelError(INSTALL) from error
    return h5py
