"""The words in which a graph of ONNX is written: operators, constants, and the layers that every Transformer is made of.

A graph is a list of nodes that name their inputs and outputs, and a list of constants. Writing it down directly, instead
of letting an exporter follow the PyTorch code, takes a second instead of half a minute, needs nothing but the package
`onnx`, and keeps the names of the weights. A weight that is used in several places (ALBERT's layers) is stored once.

A graph that will be quantised (`for_int8`) is written so that little is lost. ONNX Runtime rounds all activations of a
product on one scale, which a single large token spoils for the others: each row is therefore divided by its largest
value before the product, and the result multiplied by it. The token table is stored as 8-bit rows, each with its scale.

Legend: B sequences, L tokens of the longest, H hidden.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertworks.errors import ModelError

OPSET = 20
"""The first with GELU as an operator; ONNX Runtime knows it since 1.17."""
IR_VERSION = 10

Array = NDArray[Any]


class Nodes:
    """A graph in the making. Everything is named by strings: what a method returns is the name of a value."""

    def __init__(self, *, for_int8: bool = False) -> None:
        self.for_int8 = for_int8
        self.nodes: list[Any] = []
        self.constants: dict[str, Array] = {}
        self._names: dict[int, str] = {}  # of weights that are there already
        self._scope = ""

    def within(self, scope: str) -> Nodes:
        """Name what follows after a part of the model; returns itself."""
        self._scope = scope
        return self

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Add an operator; returns the name of its output (a list of names where there are several)."""
        from onnx import helper

        number = len(self.nodes)
        found = [f"{self._scope}/{kind}_{number}" + (f".{part}" if outputs > 1 else "") for part in range(outputs)]
        self.nodes.append(
            helper.make_node(kind, list(inputs), found, name=f"{self._scope}/{kind}_{number}", **attributes)
        )
        return found[0] if outputs == 1 else found

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        """A small constant; equal ones are stored once."""
        array = np.asarray(value, dtype)
        name = f"constant/{array.dtype}{list(array.shape)}/{'_'.join(map(str, array.reshape(-1).tolist()))}"
        self.constants.setdefault(name, array)
        return name

    def ints(self, *values: int) -> str:
        """A list of whole numbers, such as axes or a shape."""
        return self.constant(list(values), np.int64)

    def table(self, name: str, array: Array) -> str:
        """A large constant under a name of its own."""
        self.constants[name] = np.ascontiguousarray(array)
        return name

    def weight(self, name: str, tensor: Tensor, *, transposed: bool = False) -> str:
        """A parameter of the model, stored once however often it is used."""
        known = self._names.get(id(tensor))
        if known is None:
            array = tensor.detach().to("cpu", torch.float32).numpy()
            known = self._names[id(tensor)] = self.table(name, array.T if transposed else array)
        return known

    def rows_of(self, name: str, weight: Tensor, ids: str, *, whole: bool) -> str:
        """The rows of a table at `ids`; for int8, unless `whole`, a row is stored as steps from -127 to 127, and their size."""
        if whole or not self.for_int8:
            return str(self.op("Gather", self.weight(name, weight), ids))
        array = weight.detach().to("cpu", torch.float32).numpy()
        scale = np.maximum(np.abs(array).max(axis=1, keepdims=True), 1e-12) / 127
        steps = self.table(f"{name}.int8", np.rint(array / scale).astype(np.int8))
        scales = self.table(f"{name}.scale", scale.astype(np.float32))
        return self.multiply(self.as_float(self.op("Gather", steps, ids)), self.op("Gather", scales, ids))

    # -- layers --------------------------------------------------------------------------------------------------------

    def linear(self, x: str, layer: nn.Linear, name: str) -> str:
        """(…, inputs) -> (…, outputs)"""
        if not isinstance(layer, nn.Linear):
            raise ModelError("this model is quantised already; export the model that it was made from")
        weight = self.weight(f"{name}.weight", layer.weight, transposed=True)
        if self.for_int8:
            largest = self.op("Max", self.op("ReduceMax", self.op("Abs", x), self.ints(-1)), self.constant(1e-12))
            y = self.multiply(self.op("MatMul", self.op("Div", x, largest), weight), largest)
        else:
            y = self.op("MatMul", x, weight)
        return y if layer.bias is None else str(self.op("Add", y, self.weight(f"{name}.bias", layer.bias)))

    def norm(self, x: str, layer: nn.Module, name: str) -> str:
        """Layer norm over the last axis; nothing where the model has none there."""
        if isinstance(layer, nn.Identity):
            return x
        assert isinstance(layer, nn.LayerNorm)
        inputs = [x, self.weight(f"{name}.weight", layer.weight)]
        if layer.bias is not None:
            inputs.append(self.weight(f"{name}.bias", layer.bias))
        return str(self.op("LayerNormalization", *inputs, axis=-1, epsilon=layer.eps))

    def activation(self, x: str, name: str) -> str:
        """An activation by its Hugging Face name (`nn.activations`)."""
        if name == "linear":
            return x
        if name in ("silu", "swish"):
            return str(self.op("Mul", x, self.op("Sigmoid", x)))
        if name.startswith("gelu"):
            return str(self.op("Gelu", x, approximate="none" if name == "gelu" else "tanh"))
        plain = {"relu": "Relu", "tanh": "Tanh", "sigmoid": "Sigmoid", "elu": "Elu"}
        if name not in plain:
            raise ModelError(f"the activation {name!r} cannot be exported")
        return str(self.op(plain[name], x))

    def add(self, first: str, second: str) -> str:
        return str(self.op("Add", first, second))

    def multiply(self, first: str, second: str) -> str:
        return str(self.op("Mul", first, second))

    def as_float(self, x: str) -> str:
        from onnx import TensorProto

        return str(self.op("Cast", x, to=TensorProto.FLOAT))

    def model(self, inputs: dict[str, list[str | int]], outputs: dict[str, tuple[str, list[str | int]]]) -> Any:
        """The finished graph. inputs: name -> shape, all int64; outputs: name -> (value, shape), all float32."""
        from onnx import TensorProto, helper, numpy_helper

        for name, (value, _) in outputs.items():
            self.nodes.append(helper.make_node("Identity", [value], [name], name=f"output/{name}"))
        graph = helper.make_graph(
            self.nodes,
            "bertworks",
            [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name, shape in inputs.items()],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, (_, shape) in outputs.items()],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()],
        )
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="bertworks",
        )
