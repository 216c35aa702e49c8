"""Models that are quick for a few rows too: one sentence at a time, or what a server has at one moment.

With many thousand rows a matrix product is arithmetic, and PyTorch's own is the quickest. With twenty it is mostly reading
the weights, and starting the operations of a layer takes as long as doing them; with sentences of many lengths there are more
of them. So a loaded model on a CPU has a second way for small batches: compiled products (`few_rows_product`) and, in a plain
encoder like BERT's, compiled layers (`few_rows_block`): half the time for one sentence of MiniLM, two thirds for eight.

The compiler takes half a second to load (on a new machine it also compiles, for some seconds, and keeps the result on disk).
Whoever embeds one sentence and stops need not wait for that: loading begins in the background with the ninth sentence or so,
and the second way is taken once it is there. The copy of the weights that it needs is made then too. A job whose results must
be the same to the last bit, wherever and whenever it is done, settles the way before its first text (`settle_few_rows`).

Legend: T rows, K inputs, O outputs.
"""

from __future__ import annotations

import atexit
import ctypes
import logging
import os
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bertworks.models.model import Model
from bertworks.models.transformer import Hidden, Memory, Transformer
from bertworks.nn.activations import ACTIVATIONS
from bertworks.nn.blocks import FeedForward
from bertworks.nn.cache import KeyValueCache
from bertworks.nn.packed import Layout, Packed, Rows

FEW_ROWS = {"AVX2": 1024, "AVX512": 512}.get(torch.backends.cpu.get_cpu_capability(), 0)
"""Up to so many rows the compiled way is the quicker one. Measured with the sizes of MiniLM; 0: not measured (ARM)."""
SERVED_ROWS = 1024 if FEW_ROWS else 0
"""The same in a server, whose batches come one at a time and have all threads to themselves."""
PATIENCE = 200
"""So many small products are left to PyTorch before the compiler is loaded: eight sentences of MiniLM."""
WORTH_BYTES = 2**20
"""From so many bytes of text on, a job is worth waiting for the compiler."""
SWITCH = "BERTWORKS_FEW_ROWS"
"""The environment variable that leaves the second way out where it is 0."""
LINE = 64
"""Bytes of a cache line."""

_log = logging.getLogger(__name__)


class Team:
    """PyTorch's own threads, for compiled functions."""

    def __init__(self, library: Path) -> None:
        openmp = ctypes.CDLL(str(library))
        self._run = openmp.GOMP_parallel
        self._run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
        self._run.restype = None
        self.barrier = ctypes.cast(openmp.GOMP_barrier, ctypes.c_void_p).value or 0

    def run(self, work: int, plan: int, threads: int) -> None:
        """Call the compiled function at `work` with the address `plan` in so many threads, and wait for them all."""
        self._run(work, plan, threads, 0)


class Compiled:
    """The compiled functions and who runs them."""

    def __init__(self, team: Team) -> None:
        import numba

        config: Any = numba.config
        if config.CPU_NAME or config.CPU_FEATURES or not config.ENABLE_AVX:  # LLVM would end the process
            raise RuntimeError("numba is told to compile for another processor")
        from bertworks.infer import few_rows_block, few_rows_int8, few_rows_product
        from bertworks.infer.quantize_layers import Int8Linear

        self.team = team
        self.pack, self.pack_bytes = few_rows_product.pack, few_rows_int8.pack_bytes
        self.panel = few_rows_product.PANEL
        self.product_record, self.layer_record = few_rows_block.PRODUCT, few_rows_block.BLOCK
        self.first_constant = len(few_rows_block.CALL)  # of the layer's record
        self.attention_space = few_rows_block.attention_space
        self.steps = few_rows_block.STEPS
        self.product_work = few_rows_block.product_work.address
        self.stack_work = {
            FewRowsLinear: few_rows_block.stack_work.address,
            Int8Linear: few_rows_int8.int8_stack_work.address,
        }


@cache
def compiled() -> Compiled | None:
    """The second way, or None where it has not been measured to be quicker or cannot be had."""
    try:
        library = None if os.environ.get(SWITCH) == "0" else _openmp()
        if library is None or not FEW_ROWS:
            return None
        found = Compiled(Team(library))
        with torch.inference_mode(False), torch.no_grad():
            # numbers of its own: whoever has seeded PyTorch's generator relies on it
            linear = FewRowsLinear(nn.utils.skip_init(nn.Linear, 24, 32))
            linear.weight.copy_(torch.linspace(-1, 1, 24 * 32).view(32, 24).sin())
            linear.bias.copy_(torch.linspace(-1, 1, 32))
            x = torch.linspace(-3, 3, 7 * 24, dtype=torch.float32, device="cpu").view(7, 24).cos()
            if not torch.allclose(linear.product(x, found), F.linear(x, linear.weight, linear.bias), atol=1e-5):
                raise RuntimeError("a product came out wrong")
    except Exception as error:  # whatever is wrong with a compiler or a library, PyTorch's way is left
        _log.warning("no compiled products for small batches: %s", error)
        return None
    return found


def _openmp() -> Path | None:
    """The library of PyTorch's threads, of those that are loaded, where that is GNU's."""
    maps = Path("/proc/self/maps")
    if not maps.exists():  # not Linux
        return None
    loaded = {
        Path(line.split(maxsplit=5)[-1]) for line in maps.read_text(encoding="utf-8").splitlines() if "libgomp" in line
    }
    return next((path for path in sorted(loaded) if path.is_relative_to(Path(torch.__file__).parent)), None)


def worthwhile(rows: int, sample: Tensor, products: int = 1) -> Compiled | None:
    """The second way, where it can be taken for rows like `sample` and has been worth it in this process so far."""
    few = 0 < rows <= _loader.most_rows and sample.dtype == torch.float32 and sample.is_cpu
    if not few or torch.is_grad_enabled() or torch.is_autocast_enabled("cpu"):
        return None
    return _loader.way(products)


class _Loader:
    """Loads the second way in the background once enough small products were made."""

    def __init__(self) -> None:
        self._products = 0
        self._lock = Lock()
        self._thread: Thread | None = None
        self._way: Compiled | None = None
        self.left_out = False
        self.most_rows = FEW_ROWS

    def way(self, products: int) -> Compiled | None:
        """What has been loaded so far."""
        if self.left_out:
            return None
        if self._thread is None:
            self._products += products
            if self._products >= PATIENCE:
                self.begin()
        return self._way

    def begin(self) -> None:
        """Once: on a new machine compiling takes ten seconds or so."""
        with self._lock:
            if self._thread is None:
                self._thread = Thread(target=self._load, daemon=True, name="bertworks-few-rows")
                self._thread.start()
                atexit.register(self._thread.join)  # a compiler that the process ends under may crash

    def wait(self) -> None:
        """Until it is there."""
        self.begin()
        assert self._thread is not None
        self._thread.join()

    def _load(self) -> None:
        self._way = compiled()


_loader = _Loader()


def expect_few_rows() -> Callable[[], None]:
    """Begin to load the second way now, for a server, which will read one text after the other; the result waits for it."""
    _loader.most_rows = SERVED_ROWS
    _loader.begin()
    return _loader.wait


def settle_few_rows(num_bytes: int | None) -> None:
    """Decide for the whole process, by the size of a job alone: the second way from the first text on, or not at all.

    num_bytes: of the texts; None where nobody knows
    """
    _loader.left_out = num_bytes is None or num_bytes < WORTH_BYTES
    if not _loader.left_out:
        _loader.wait()


class FewRowsLinear(nn.Linear):
    """`nn.Linear` with a second way for few rows; the parameters are those of the layer that it is made of."""

    def __init__(self, linear: nn.Linear) -> None:
        nn.Module.__init__(self)  # no weights of its own
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias
        self._packed: tuple[list[np.ndarray], _State] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """(T, K) -> (T, O)"""
        way = worthwhile(len(x), x) if x.dim() == 2 and x.shape[1] == self.in_features else None
        if way is None or not _fits(self, way):
            return F.linear(x, self.weight, self.bias)
        return self.product(x, way)

    def packed(self, way: Compiled) -> list[np.ndarray]:
        """Panels and bias, made anew where the parameters were changed."""
        if self._packed is None or self._packed[1].changed([self]):
            self._packed = (self.pack(way), _State([self]))
        return self._packed[0]

    def pack(self, way: Compiled) -> list[np.ndarray]:
        """Panels (P, K, outputs of one) and bias (O,)"""
        panels = way.pack(self.weight.detach().numpy())
        return [
            panels,
            np.zeros(len(panels) * way.panel, np.float32) if self.bias is None else self.bias.detach().numpy(),
        ]

    def product(self, x: Tensor, way: Compiled) -> Tensor:
        """(T, K) -> (T, O), the second way"""
        x = x.contiguous()
        y = x.new_empty(len(x), self.out_features)
        turns, plan = np.zeros(1, np.int64), np.zeros(1, way.product_record)
        panels, bias = self.packed(way)
        threads = torch.get_num_threads()
        places = (x.data_ptr(), y.data_ptr(), len(x), panels.ctypes.data, bias.ctypes.data)
        plan[0] = (turns.ctypes.data, threads, *places, self.in_features, self.out_features)
        way.team.run(way.product_work, plan.ctypes.data, threads)
        return y

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_packed": None}  # a copy makes its own


class FewRowsTransformer(Transformer):
    """A plain encoder (see `_is_plain`) with a second way for few rows; its parts are those of another stack."""

    def __init__(self, stack: Transformer) -> None:
        nn.Module.__init__(self)
        self.__dict__.update(stack.__dict__)
        self._layers: _Layers | None = None

    def forward(
        self,
        batch: Packed,
        *,
        layers: Sequence[int] | None = None,
        rows: Rows | None = None,
        memory: Memory | None = None,
        cache: KeyValueCache | None = None,
        attentions: bool = False,
    ) -> Hidden:
        """The wanted `layers` (default: the last), at `rows` only where they are given. Hooks on parts of blocks do not run."""
        plain = cache is None and memory is None and not attentions and not self.training
        total = batch.layout.total
        way = worthwhile(total, self.embeddings.tokens.weight, 4 * self.config.num_hidden_layers) if plain else None
        prepared = None if way is None else self._prepared(way)
        if way is None or prepared is None:
            return super().forward(batch, layers=layers, rows=rows, memory=memory, cache=cache, attentions=attentions)
        group = self.config.layers_per_group
        wanted = [self.config.num_hidden_layers] if layers is None else sorted(set(layers))
        places = batch.layout.positions() if batch.positions is None else batch.positions
        x = self.embeddings(batch, places).contiguous()  # (T, H)
        if x.shape != (total, prepared.hidden) or x.dtype != torch.float32:
            raise ValueError(f"a batch of {total} tokens has embeddings of {tuple(x.shape)}, {x.dtype}")
        results = prepared.run(x, batch.layout, wanted[-1] * group, way)
        # copies, so that nobody keeps all layers for the sake of one
        found = {number: results[number * group - 1].clone() if number else x for number in wanted}
        return Hidden(found if rows is None else {number: rows.take(layer) for number, layer in found.items()})

    def _prepared(self, way: Compiled) -> _Layers | None:
        """What is the same in every call; None where heads are no whole panels, or products not all of one kind."""
        if self.head_size % way.panel:
            return None
        blocks = list(self._modules["blocks"]._modules.values())  # type: ignore[union-attr]
        parts = [part for block in blocks for part in _parts(block)]
        if self._layers is None or self._layers.state.changed(parts):
            linears = [part for part in parts if not isinstance(part, nn.LayerNorm)]
            kinds = {type(linear) for linear in linears}
            floats = all(
                each.dtype == torch.float32 and each.is_contiguous() for part in parts for each in part.parameters()
            )
            fit = floats and kinds <= way.stack_work.keys() and all(_fits(each, way) for each in linears)
            if len(kinds) > 1 or not fit:
                return None
            path = [index for layer in range(self.config.num_hidden_layers) for index in self.blocks_of(layer + 1)]
            self._layers = _Layers([blocks[index] for index in path], parts, way)
        return self._layers

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_layers": None}


class _Layers:
    """The layers' part of the plan: where their panels, biases and norms lie, and what keeps them there."""

    def __init__(self, path: Sequence[Any], parts: list[Any], way: Compiled) -> None:
        self.state = _State(parts)
        self.hidden, self.inner = path[0].attention.out.out_features, path[0].feed_forward.up.out_features
        self.heads = path[0].attention.num_heads
        self.zeros = np.zeros(max(self.inner, self.hidden, SERVED_ROWS + way.panel), np.float32)
        self.panels = _packed([part for part in parts if not isinstance(part, nn.LayerNorm)], way)
        self.work = way.stack_work[type(parts[0])]
        self.template = np.zeros(len(path), way.layer_record)
        for record, block in zip(self.template, path, strict=True):
            *linears, first_norm, second_norm = _parts(block)
            sizes = (self.hidden, self.inner, block.attention.num_heads, self.zeros.ctypes.data)
            arrays = [array for linear in linears for array in (*self.panels[linear], self.zeros, self.zeros)[:4]]
            shifts = [each.data_ptr() for norm in (first_norm, second_norm) for each in (norm.weight, norm.bias)]
            numbers = (block.attention.scale, first_norm.eps, second_norm.eps)
            constants = (*sizes, *(array.ctypes.data for array in arrays), *shifts, *numbers)
            for name, value in zip((way.layer_record.names or ())[way.first_constant :], constants, strict=True):
                record[name] = value

    def run(self, x: Tensor, layout: Layout, depth: int, way: Compiled) -> Tensor:
        """The results of the first `depth` layers for x (T, H): (depth, T, H)"""
        total, threads, hidden, inner = len(x), torch.get_num_threads(), self.hidden, self.inner
        results = x.new_empty(depth, total, hidden)
        if not depth:
            return results
        space = way.attention_space(max(layout.lengths), hidden // self.heads)
        sizes = {
            **dict.fromkeys(("context", "y", "a"), total * hidden),
            "qkv": 3 * total * hidden,
            "inner": total * inner,
            "space": threads * space,
            "codes": total * hidden // 4,
            "inner_codes": total * inner // 4,  # in bytes
            "row_scales": total,
            "row_lows": total,
        }
        scratch = x.new_empty(sum(sizes.values()) + len(sizes))
        places = accumulate((4 * (size + 1) for size in sizes.values()), initial=scratch.data_ptr())
        turns = np.zeros((depth, way.steps), np.int64)
        sequences = np.array((layout.starts, layout.lengths), np.int64)
        starts = sequences.ctypes.data
        plan = self.template[:depth].copy()
        plan["layers"], plan["rows"], plan["threads"] = depth, total, threads
        plan["space_size"] = space
        plan["barrier"] = way.team.barrier if threads > 1 else 0
        plan["sequences"], plan["starts"], plan["lengths"] = layout.num_sequences, starts, starts + sequences.strides[0]
        plan["turns"] = turns.ctypes.data + turns.strides[0] * np.arange(depth)
        plan["result"] = results.data_ptr() + 4 * total * hidden * np.arange(depth)
        plan["x"] = plan["result"] - 4 * total * hidden
        plan["x"][0] = x.data_ptr()
        for name, place in zip(sizes, places, strict=False):
            plan[name] = place
        way.team.run(self.work, plan.ctypes.data, threads)
        return results


def _parts(block: Any) -> tuple[Any, ...]:
    """Four linear layers and two norms; out of the modules' dicts, since their attributes are slow to find."""
    parts = block._modules
    attention, network = parts["attention"]._modules, parts["feed_forward"]._modules
    linears = (attention["qkv"], attention["out"], network["up"], network["down"])
    return (*linears, parts["attention_norm"], parts["feed_forward_norm"])


class _State:
    """Parameters of parts as they were: kept, so that no other can come to lie at their address."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self._parts = parts
        self._kept = [parameter.detach() for part in parts for parameter in part.parameters()]
        self._numbers = self._read(parts)

    def changed(self, parts: Sequence[Any]) -> bool:
        """Whether these are other parts, or a weight or a bias of theirs was changed or replaced."""
        return parts != self._parts or self._read(parts) != self._numbers

    @staticmethod
    def _read(parts: Sequence[Any]) -> list[int]:
        numbers: list[int] = []
        for part in parts:
            for parameter in part._parameters.values():
                if parameter is not None:
                    numbers += (parameter.data_ptr(), parameter._version)
        return numbers


def _panels(linear: Any, way: Compiled) -> list[np.ndarray]:
    """A layer's panels and bias; in int8 also the scales and the sums of the rows of its matrix."""
    if isinstance(linear, FewRowsLinear):
        return linear.pack(way)
    sums, bias = linear.arrays
    return [way.pack_bytes(linear.integers.numpy()), bias, linear.scales.numpy(), sums]


def _packed(linears: Sequence[Any], way: Compiled) -> dict[Any, list[np.ndarray]]:
    """Each layer's `_panels`, the panels themselves in one piece of memory, which can then be of large pages."""
    sizes = [
        -(-(part.integers if hasattr(part, "integers") else part.weight).nbytes // LINE) * LINE for part in linears
    ]
    memory = np.empty(sum(sizes) + LINE, np.uint8)
    first = -memory.ctypes.data % LINE
    moved = {}
    for part, start in zip(linears, accumulate(sizes, initial=first), strict=False):
        panels, *others = _panels(part, way)
        own = memory[start : start + panels.nbytes].view(panels.dtype).reshape(panels.shape)
        own[:] = panels
        moved[part] = [own, *others]
    return moved


def _fits(linear: Any, way: Compiled) -> bool:
    """Whether the outputs make whole panels and, in int8, the inputs whole groups."""
    whole = bool(linear.out_features % way.panel == 0)
    if isinstance(linear, FewRowsLinear):
        return whole and linear.weight.dtype == torch.float32
    return whole and linear.in_features % 4 == 0


def _is_plain(stack: nn.Module) -> bool:
    """Whether `few_rows_block` is this stack's formula: post-norm, GELU, all of a sequence seen from everywhere, as in BERT."""
    if type(stack) is not Transformer or stack.final_norm is not None:
        return False
    config = stack.config
    local = any(config.is_local(index) for index in range(config.num_hidden_layers))
    if config.causal or local or config.positions.relative != "none":
        return False
    return all(_is_plain_block(block) for block in stack.blocks)


def _is_plain_block(block: Any) -> bool:
    norms, network = (block.attention_norm, block.feed_forward_norm), block.feed_forward
    if isinstance(network, FeedForward):
        gelu = not network.gated and network.activation is ACTIVATIONS["gelu"]
    else:  # in int8, where the compiler is loaded already
        from bertworks.infer.quantize_layers import CURVES

        gelu = np.array_equal(network.curve, CURVES[ACTIVATIONS["gelu"]])
    normed = all(isinstance(norm, nn.LayerNorm) and norm.bias is not None for norm in norms)
    return bool(gelu and normed and not block.pre_norm and not block.cross)


def quicken_few_rows(model: Model) -> None:
    """Give a model's linear layers, and its stack where it is a plain encoder, their second way, in place.

    Parameters that were made in inference mode do not tell when they are changed, and keep PyTorch's way. Nor is it noticed
    where `parameter.data` is changed in place; change the parameter itself, under `torch.no_grad()`.
    """
    if any(parameter.is_inference() for parameter in model.body.parameters()):
        return
    for part in list(model.body.modules()):
        for name, child in part.named_children():
            if type(child) is nn.Linear:
                setattr(part, name, FewRowsLinear(child))
    if isinstance(model.body, Transformer) and _is_plain(model.body):
        model.body = FewRowsTransformer(model.body)
