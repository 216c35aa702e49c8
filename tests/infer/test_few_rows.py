"""Few rows go another way and give the same."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import bertworks
from bertworks.infer import few_rows
from bertworks.infer.few_rows import FEW_ROWS, FewRowsLinear, FewRowsTransformer, quicken_few_rows, settle_few_rows
from bertworks.infer.quantize import Switch, quantize
from bertworks.models.config import EmbeddingConfig, LayerConfig, ModelConfig, PositionConfig, TransformerConfig
from bertworks.models.model import Model
from bertworks.models.transformer import Transformer
from bertworks.nn.packed import Layout, Packed

HIDDEN, HEADS, INNER = 64, 2, 96
LONGEST = max(FEW_ROWS, 130)

WAY = few_rows._Loader.way

compiled_here = pytest.mark.usefixtures("compiled_way")


@pytest.fixture
def compiled_way() -> None:
    if few_rows.compiled() is None:
        pytest.skip("no compiled products on this processor")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """From the first product on, not from the two hundredth and in the background."""
    monkeypatch.delenv(few_rows.SWITCH)
    monkeypatch.setattr(few_rows._loader, "left_out", False)
    monkeypatch.setattr(few_rows._loader, "most_rows", FEW_ROWS)
    monkeypatch.setattr(few_rows._Loader, "way", lambda self, products: None if self.left_out else few_rows.compiled())
    cached = few_rows.compiled
    cached.cache_clear()
    yield
    cached.cache_clear()


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many threads each compiled call had."""
    few_rows.compiled()  # which tries itself
    found: list[int] = []
    run = few_rows.Team.run

    def noted(self: few_rows.Team, work: int, plan: int, threads: int) -> None:
        found.append(threads)
        run(self, work, plan, threads)

    monkeypatch.setattr(few_rows.Team, "run", noted)
    return found


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def model_of(config: TransformerConfig) -> Model:
    return Model(ModelConfig(family="bertworks", body=config)).eval()


def stack(*, layers: int = 2, int8: bool = False, **options: Any) -> Model:
    """A small BERT whose norms and biases are not those that it starts with."""
    torch.manual_seed(0)
    sizes = {"hidden_size": HIDDEN, "num_attention_heads": HEADS, "intermediate_size": INNER}
    layer = LayerConfig(**{**sizes, **options})
    config = TransformerConfig(
        num_hidden_layers=layers,
        layer=layer,
        embeddings=EmbeddingConfig(vocab_size=50, type_vocab_size=2),
        positions=PositionConfig(max_position_embeddings=LONGEST),
    )
    model = model_of(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    if int8:
        quantize(model)
    return model


def quick(plain: Model) -> Model:
    other = copy.deepcopy(plain)
    quicken_few_rows(other)
    return other


def batch(*lengths: int) -> Packed:
    return Packed(input_ids=torch.randint(0, 50, (sum(lengths),)), layout=Layout(lengths))


# -- products ----------------------------------------------------------------------------------------------------------


@compiled_here
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("outputs", [32, 96, 416])
@pytest.mark.parametrize("rows", [*range(1, 27), FEW_ROWS])
def test_products_are_the_same(rows: int, outputs: int, bias: bool, runs: list[int]) -> None:
    plain = nn.Linear(40, outputs, bias=bias)
    other, x = FewRowsLinear(plain), torch.randn(rows, 40)
    with torch.inference_mode():
        torch.testing.assert_close(other(x), plain(x), rtol=1e-5, atol=1e-5)
    assert len(runs) == 1
    assert other.weight is plain.weight


@pytest.mark.parametrize(("rows", "outputs"), [(0, 32), (FEW_ROWS + 1, 32), (3, 30)])
def test_other_sizes_take_the_plain_way(rows: int, outputs: int, runs: list[int]) -> None:
    plain, x = nn.Linear(8, outputs), torch.randn(rows, 8)
    with torch.inference_mode():
        torch.testing.assert_close(FewRowsLinear(plain)(x), plain(x))
    assert runs == []


@compiled_here
def test_a_row_does_not_depend_on_its_neighbours_or_the_threads(two_threads: None, runs: list[int]) -> None:
    linear, x = FewRowsLinear(nn.Linear(384, 160)), torch.randn(23, 384)
    with torch.inference_mode():
        together = linear(x)
        torch.set_num_threads(1)
        alone = torch.cat([linear(row[None]) for row in x])
    assert torch.equal(together, alone)
    assert set(runs) == {1, 2}


@compiled_here
def test_rows_that_are_not_contiguous() -> None:
    linear, x = FewRowsLinear(nn.Linear(24, 32)), torch.randn(5, 48)[:, ::2]
    with torch.inference_mode():
        torch.testing.assert_close(linear(x), F.linear(x, linear.weight, linear.bias))


def test_rows_of_the_wrong_width_are_an_error() -> None:
    with torch.inference_mode(), pytest.raises(RuntimeError, match="shapes"):
        FewRowsLinear(nn.Linear(24, 32))(torch.zeros(3, 25))


def test_gradients_take_the_plain_way(runs: list[int]) -> None:
    linear = FewRowsLinear(nn.Linear(4, 32))
    linear(torch.randn(2, 4)).sum().backward()
    assert linear.weight.grad is not None
    assert runs == []


@pytest.mark.parametrize("name", ["weight", "bias"])
def test_a_changed_parameter_is_noticed(name: str) -> None:
    linear, x = FewRowsLinear(nn.Linear(4, 32)), torch.randn(2, 4)
    with torch.no_grad():
        linear(x)
        getattr(linear, name).mul_(2)
        torch.testing.assert_close(linear(x), F.linear(x, linear.weight, linear.bias))
        setattr(linear, name, nn.Parameter(torch.randn_like(getattr(linear, name))))
        torch.testing.assert_close(linear(x), F.linear(x, linear.weight, linear.bias))


def test_half_precision_takes_the_plain_way(runs: list[int]) -> None:
    linear, x = FewRowsLinear(nn.Linear(8, 32).bfloat16()), torch.randn(2, 8, dtype=torch.bfloat16)
    with torch.no_grad():
        torch.testing.assert_close(linear(x), F.linear(x, linear.weight, linear.bias))
    assert runs == []


@compiled_here
@pytest.mark.parametrize("rows", [1, 2, 5, 6, 7, 12, 23])
def test_products_of_bytes_are_exact(rows: int) -> None:
    from bertworks.infer.few_rows_int8 import PANEL, multiply_bytes, pack_bytes

    generator = np.random.default_rng(0)
    codes = generator.integers(0, 256, (rows, 68), np.uint8)
    weight = generator.integers(-64, 65, (96, 68), np.int8)
    codes[0], weight[0], weight[1] = 255, 64, -64  # the largest sums there are
    ones, zeros, y = np.ones(96, np.float32), np.zeros(96, np.float32), np.empty((rows, 96), np.float32)
    panels = pack_bytes(weight)
    arrays = (codes, np.ones(rows, np.float32), np.zeros(rows, np.float32), panels, ones, zeros, zeros, y)
    multiply_bytes(*(array.ctypes.data for array in arrays), rows, 68, 96, 96 // PANEL)
    np.testing.assert_array_equal(y, codes.astype(np.int64) @ weight.astype(np.int64).T)


# -- stacks ------------------------------------------------------------------------------------------------------------


@compiled_here
@pytest.mark.parametrize("int8", [False, True], ids=["fp32", "int8"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("lengths", [(1,), (5,), (17,), (130,), (3, 3, 9), (40, 1, 30)])
def test_layers_are_the_same(
    lengths: tuple[int, ...], threads: int, int8: bool, two_threads: None, runs: list[int]
) -> None:
    torch.set_num_threads(threads)
    plain, tokens = stack(int8=int8), batch(*lengths)
    other, exact = stack(int8=int8), stack().double()
    quicken_few_rows(other)
    with torch.inference_mode():
        wanted = exact.body(tokens, layers=[0, 1, 2]).layers
        found, of_plain = (model.body(tokens, layers=[0, 1, 2]).layers for model in (other, plain))
    for number, layer in wanted.items():
        error_of_plain = float((of_plain[number] - layer).abs().max())
        if int8:  # a number that lies between two codes may get the one or the other
            assert float((found[number] - of_plain[number]).abs().max()) <= error_of_plain
        else:  # both round, each in its own order
            assert float((found[number] - layer).abs().max()) <= 4 * error_of_plain
    assert runs == [threads]


@compiled_here
@pytest.mark.parametrize("int8", [False, True], ids=["fp32", "int8"])
def test_any_number_of_threads_gives_the_same(int8: bool, two_threads: None) -> None:
    model, tokens = stack(int8=int8, intermediate_size=1200), batch(7, 30)
    quicken_few_rows(model)
    found = []
    with torch.inference_mode():
        for threads in (1, 2, 3, 5, 8):
            torch.set_num_threads(threads)
            found.append(model.body(tokens).last)
    assert all(torch.equal(each, found[0]) for each in found)


@compiled_here
def test_several_callers_at_once() -> None:
    model, batches = quick(stack()), [batch(length) for length in range(1, 40)]

    def last(tokens: Packed) -> Tensor:
        with torch.inference_mode():
            return model.body(tokens).last

    wanted = [last(tokens) for tokens in batches]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(last, batches))
    assert all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))


@compiled_here
def test_empty_sequences_positions_and_segments(runs: list[int]) -> None:
    plain, layout = stack(), Layout([3, 0, 5, 0])
    other = quick(plain)
    tokens = Packed(
        input_ids=torch.arange(8), layout=layout, positions=torch.arange(8) + 4, segments=torch.tensor([0, 1] * 4)
    )
    with torch.inference_mode():
        torch.testing.assert_close(other.body(tokens).last, plain.body(tokens).last, rtol=1e-5, atol=2e-6)
    assert len(runs) == 1


@compiled_here
def test_layers_without_biases(runs: list[int]) -> None:
    plain, tokens = stack(bias=False), batch(5)
    other = quick(plain)
    with torch.inference_mode():
        torch.testing.assert_close(other.body(tokens).last, plain.body(tokens).last, rtol=1e-5, atol=2e-6)
    assert len(runs) == 1


def test_widths_that_are_no_panels() -> None:
    plain, tokens = stack(intermediate_size=90), batch(5)
    other = quick(plain)
    with torch.inference_mode():
        torch.testing.assert_close(other.body(tokens).last, plain.body(tokens).last, rtol=1e-5, atol=2e-6)


@compiled_here
def test_another_default_type(runs: list[int]) -> None:
    plain, tokens = stack(), batch(5)
    other = quick(plain)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.inference_mode():
            found = other.body(tokens).last
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.inference_mode():
        torch.testing.assert_close(found, plain.body(tokens).last, rtol=1e-5, atol=2e-6)
    assert len(runs) == 1


@compiled_here
def test_a_replaced_block_is_noticed() -> None:
    plain, tokens = stack(), batch(5)
    other = quick(plain)
    with torch.no_grad():
        other.body(tokens)
        for model in (plain, other):
            model.body.blocks[1] = copy.deepcopy(plain.body.blocks[0])
        torch.testing.assert_close(other.body(tokens).last, plain.body(tokens).last, rtol=1e-5, atol=2e-6)


@compiled_here
def test_weights_that_were_narrow_for_a_while() -> None:
    plain, tokens = stack(), batch(5)
    other = quick(plain)
    with torch.no_grad():
        other.body(tokens)
        for model in (plain, other):
            model.half().float()
        torch.testing.assert_close(other.body(tokens).last, plain.body(tokens).last, rtol=1e-5, atol=2e-6)


@compiled_here
@pytest.mark.parametrize("int8", [False, True], ids=["fp32", "int8"])
def test_a_text_does_not_depend_on_its_neighbours(int8: bool, two_threads: None) -> None:
    model, tokens = stack(int8=int8), batch(9, 4, 21)
    quicken_few_rows(model)
    with torch.inference_mode():
        together = model.body(tokens).last
        torch.set_num_threads(1)
        parts = [Packed(input_ids=ids, layout=Layout([len(ids)])) for ids in tokens.input_ids.split([9, 4, 21])]
        alone = torch.cat([model.body(part).last for part in parts])
    assert torch.equal(together, alone)


@compiled_here
def test_large_numbers_do_not_overflow(runs: list[int]) -> None:
    plain, tokens = stack(), batch(9)
    with torch.no_grad():
        plain.body.blocks[0].attention.qkv.weight.mul_(300)  # scores of thousands: one weight is 1, the others are 0
        found, wanted = (model.body(tokens).last for model in (quick(plain), plain))
    assert torch.isfinite(found).all()
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    assert len(runs) == 1


@compiled_here
@pytest.mark.parametrize("places", [[0, 4, 10], [1, 2, 12]])  # the second leaves one sequence out
def test_a_few_rows_of_the_last_layer(places: list[int], runs: list[int]) -> None:
    plain, tokens = stack(), batch(4, 6, 3)
    other, rows = quick(plain), tokens.layout.rows(torch.tensor(places))
    with torch.inference_mode():
        found, wanted = (model.body(tokens, rows=rows, layers=[1, 2]).layers for model in (other, plain))
    for number in (1, 2):
        torch.testing.assert_close(found[number], wanted[number], rtol=1e-5, atol=2e-6)
    assert len(runs) == 1


@compiled_here
@pytest.mark.parametrize(
    "changed", ["blocks.0.attention.qkv.weight", "blocks.1.attention_norm.weight", "blocks.1.feed_forward_norm.bias"]
)
def test_a_changed_parameter_of_a_stack_is_noticed(changed: str) -> None:
    plain, tokens = stack(), batch(5)
    other = quick(plain)
    with torch.no_grad():
        other.body(tokens)
        for model in (plain, other):
            model.body.get_parameter(changed).mul_(1.5)
        torch.testing.assert_close(other.body(tokens).last, plain.body(tokens).last, rtol=1e-5, atol=2e-6)


@compiled_here
def test_shared_blocks_run_more_than_once(runs: list[int]) -> None:
    config = replace(stack().body.config, num_groups=1, layers_per_group=2, num_hidden_layers=3)  # as ALBERT's
    plain, tokens = model_of(config), batch(5, 3)
    other = quick(plain)
    with torch.inference_mode():
        found, wanted = (model.body(tokens, layers=[0, 1, 3]).layers for model in (other, plain))
    for number, layer in wanted.items():
        torch.testing.assert_close(found[number], layer, rtol=1e-5, atol=2e-6)
    assert len(runs) == 1


def test_embeddings_alone() -> None:
    plain, tokens = stack(), batch(5)
    other = quick(plain)
    with torch.inference_mode():
        found = other.body(tokens, layers=[0]).layers
    torch.testing.assert_close(found[0], plain.body(tokens, layers=[0]).layers[0])


def test_attention_weights_are_given_where_they_are_asked_for() -> None:
    plain, tokens = stack(), batch(5)
    other = quick(plain)
    with torch.inference_mode():
        found, wanted = (model.body(tokens, attentions=True).attentions for model in (other, plain))
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "options", [{"pre_norm": True}, {"gated": True}, {"norm_bias": False}], ids=lambda options: next(iter(options))
)
def test_other_stacks_keep_their_formula(options: dict[str, bool]) -> None:
    plain, tokens = stack(**options), batch(7)
    other = quick(plain)
    assert type(other.body) is Transformer
    with torch.inference_mode():
        torch.testing.assert_close(other.body(tokens).last, plain.body(tokens).last, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("layer", "others"),
    [
        ({"hidden_act": "gelu_new"}, {}),
        ({}, {"causal": True}),
        ({}, {"positions": PositionConfig(max_position_embeddings=LONGEST, relative="rotary")}),
    ],
    ids=["activation", "causal", "rotary"],
)
def test_other_formulas_are_not_taken_for_bert(layer: dict[str, Any], others: dict[str, Any]) -> None:
    config = stack().body.config
    plain, tokens = model_of(replace(config, layer=replace(config.layer, **layer), **others)), batch(7)
    other = quick(plain)
    assert type(other.body) is Transformer
    with torch.inference_mode():
        torch.testing.assert_close(other.body(tokens).last, plain.body(tokens).last, rtol=1e-5, atol=2e-6)


def test_heads_that_are_no_whole_panels_take_the_plain_way() -> None:
    plain, tokens = stack(num_attention_heads=8), batch(7)
    with torch.inference_mode():
        torch.testing.assert_close(quick(plain).body(tokens).last, plain.body(tokens).last, rtol=1e-5, atol=2e-6)


@pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() != "AVX512", reason="this processor has narrow vectors only"
)
def test_narrow_vectors_on_a_processor_with_wide_ones() -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", __file__, "-k", "exact or products_are or layers_are"]
    narrow = {**os.environ, "ATEN_CPU_CAPABILITY": "avx2"}
    found = subprocess.run(command, env=narrow, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout
    assert "skipped" not in found.stdout


@compiled_here
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_minilm_keeps_its_quality(precision: str, minilm_directory: Path, shared_data: Path, runs: list[int]) -> None:
    lines = (shared_data / "sst2" / "dev.tsv").read_text(encoding="utf-8").splitlines()
    texts = sorted((line.split("\t")[0] for line in lines), key=len)[:150]  # short ones suffer most
    few_rows._loader.left_out = True
    wanted = bertworks.load(minilm_directory).embed(texts)
    assert runs == []
    few_rows._loader.left_out = False
    found = bertworks.load(minilm_directory, precision=precision, batch_tokens=FEW_ROWS).embed(texts)
    assert runs
    cosines = (wanted * found).sum(axis=1)
    assert cosines.min() > (0.98 if precision == "int8" else 0.999999)
    assert cosines.mean() > (0.995 if precision == "int8" else 0.999999)


@compiled_here
def test_a_server_takes_it_for_larger_batches(monkeypatch: pytest.MonkeyPatch, runs: list[int]) -> None:
    monkeypatch.setattr(few_rows._Loader, "begin", lambda self: None)
    few_rows.expect_few_rows()
    other, x = FewRowsLinear(nn.Linear(8, 32)), torch.randn(few_rows.SERVED_ROWS, 8)
    with torch.inference_mode():
        torch.testing.assert_close(other(x), F.linear(x, other.weight, other.bias), rtol=1e-5, atol=1e-5)
    assert len(runs) == 1


def test_the_way_is_settled_by_the_size_of_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = few_rows._Loader()
    monkeypatch.setattr(few_rows, "_loader", loader)
    monkeypatch.setattr(few_rows._Loader, "way", WAY)
    for num_bytes in (None, few_rows.WORTH_BYTES - 1):
        settle_few_rows(num_bytes)
        assert loader.way(10 * few_rows.PATIENCE) is None
        assert loader._thread is None  # and it will not change later
    settle_few_rows(few_rows.WORTH_BYTES)
    assert loader.way(1) is few_rows.compiled()


def test_dropout_in_training_is_not_left_out() -> None:
    model, tokens = quick(stack(hidden_dropout_prob=0.5)).train(), batch(7)
    with torch.no_grad():
        assert not torch.equal(model.body(tokens).last, model.body(tokens).last)


def test_it_can_be_copied_and_pickled() -> None:
    model, tokens = quick(stack()), batch(4, 2)
    with torch.no_grad():
        wanted = model.body(tokens).last
        for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            torch.testing.assert_close(other.body(tokens).last, wanted)


# -- whole models ------------------------------------------------------------------------------------------------------


def test_a_loaded_model_has_it(minilm_directory: Path) -> None:
    model = bertworks.load(minilm_directory)
    body = model.model.body
    assert {type(part) for part in body.modules() if isinstance(part, nn.Linear)} == {FewRowsLinear}
    assert type(body) is FewRowsTransformer
    alone = model.embed("A short one.")
    among_many = model.embed(["A short one."] * 90)[0]
    assert float(abs(alone - among_many).max()) < 1e-6


def test_the_compiler_is_left_alone_at_first(minilm_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    loader = few_rows._Loader()
    monkeypatch.setattr(few_rows, "_loader", loader)
    monkeypatch.setattr(few_rows, "compiled", lambda: pytest.fail("it was loaded"))
    bertworks.load(minilm_directory).embed("A short one.")
    assert loader._thread is None


@compiled_here
def test_it_is_loaded_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.delenv(few_rows.SWITCH)
    monkeypatch.setattr(few_rows._loader, "left_out", False)
    monkeypatch.setattr(few_rows._loader, "most_rows", FEW_ROWS)
    loader = few_rows._Loader()
    assert loader.way(few_rows.PATIENCE - 1) is None
    assert loader._thread is None
    loader.way(1)
    assert loader._thread is not None
    loader._thread.join()
    assert loader.way(1) is few_rows.compiled()


@compiled_here
def test_loading_leaves_the_random_numbers_alone() -> None:
    torch.manual_seed(0)
    wanted = torch.random.get_rng_state()
    assert few_rows.compiled.__wrapped__() is not None
    assert torch.equal(torch.random.get_rng_state(), wanted)


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTWORKS_FEW_ROWS", "0")
    assert few_rows.compiled.__wrapped__() is None


def test_without_the_library_of_threads(monkeypatch: pytest.MonkeyPatch, minilm_directory: Path) -> None:
    model = bertworks.load(minilm_directory)
    wanted = model.embed("A short one.")
    monkeypatch.setattr(few_rows, "compiled", lambda: None)
    np.testing.assert_allclose(model.embed("A short one."), wanted, atol=1e-6)


def test_layers_in_int8_are_not_passed_by(minilm_directory: Path) -> None:
    model = bertworks.load(minilm_directory)
    before = model.embed("A short one.")
    switch = Switch(model.model)
    switch.to_int8(["body.blocks.0.attention.qkv"])
    difference = float(abs(model.embed("A short one.") - before).max())
    assert difference > 1e-5
    switch.to_int8([])
    np.testing.assert_array_equal(model.embed("A short one."), before)


def test_parameters_made_in_inference_mode_keep_the_plain_way() -> None:
    with torch.inference_mode():
        model = stack()
    quicken_few_rows(model)
    assert type(model.body) is Transformer
