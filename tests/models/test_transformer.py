"""The one stack: order of words, batch invariance, rows, layers, the cache, shared weights."""

import pytest
import torch

from bertworks.errors import ConfigError, ModelError
from bertworks.models.config import (
    EmbeddingConfig,
    HeadConfig,
    LayerConfig,
    ModelConfig,
    PositionConfig,
    TransformerConfig,
)
from bertworks.models.model import Model
from bertworks.models.transformer import Memory, Transformer
from bertworks.nn.cache import KeyValueCache
from bertworks.nn.packed import Layout, Packed

POSITIONS = {
    "learned": PositionConfig(absolute="learned", max_position_embeddings=23),
    "sinusoidal": PositionConfig(absolute="sinusoidal", max_position_embeddings=23),
    "buckets": PositionConfig(absolute="none", relative="buckets", num_buckets=10, max_distance=13),
    "keys": PositionConfig(absolute="none", relative="keys", max_position_embeddings=23),
    "keys_queries": PositionConfig(absolute="none", relative="keys_queries", max_position_embeddings=23),
    "rotary": PositionConfig(absolute="none", relative="rotary", theta=50.0, local_theta=20.0),
}
NOWHERE = PositionConfig(absolute="none", relative="none")


def config(positions: PositionConfig, **options) -> TransformerConfig:
    return TransformerConfig(
        embeddings=EmbeddingConfig(vocab_size=31, type_vocab_size=2),
        positions=positions,
        layer=LayerConfig(hidden_size=24, num_attention_heads=3, intermediate_size=37),
        num_hidden_layers=5,
        initializer_range=0.3,
        **options,
    )


def stack(positions: PositionConfig, **options) -> Transformer:
    torch.manual_seed(0)
    return Transformer(config(positions, **options)).eval()


VARIANTS = {
    "plain": {},
    "causal": {"causal": True},
    "local": {"local_window": 2, "global_every": 3},
    "causal local": {"causal": True, "local_window": 2, "global_every": 2},
    "shared": {"num_groups": 2},
    "final norm": {"final_norm": True, "skip_first_norm": True},
}


@pytest.mark.parametrize("kind", POSITIONS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_batch_mates_and_rows_change_nothing(kind, variant):
    body = stack(POSITIONS[kind], **VARIANTS[variant])
    sequences = [torch.randint(0, 31, (length,)).tolist() for length in (4, 4, 6, 9)]
    batch = Packed.from_sequences(sequences)
    together = body(batch, layers=range(6))
    for sequence, start in zip(sequences, batch.layout.starts, strict=True):
        alone = body(Packed.from_sequences([sequence]), layers=range(6))
        for layer in range(6):
            torch.testing.assert_close(
                together.layers[layer][start : start + len(sequence)], alone.layers[layer], atol=1e-5, rtol=1e-5
            )
    rows = batch.layout.rows(torch.tensor([1, 5, 6, 7, 20, 22]))
    for top in (5, 3):
        some = body(batch, rows=rows, layers=[1, top])
        for layer in (1, top):
            torch.testing.assert_close(some.layers[layer], together.layers[layer][rows.index], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(body(batch, attentions=True).last, together.last, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", POSITIONS)
@pytest.mark.parametrize("window", [None, 3])
def test_the_cache_equals_the_whole(kind, window):
    body = stack(POSITIONS[kind], causal=True, local_window=window, global_every=2)
    sequences = [torch.randint(0, 31, (length,)).tolist() for length in (9, 10, 11, 13)]
    whole = [body(Packed.from_sequences([sequence])).last for sequence in sequences]
    cache = KeyValueCache(num_layers=5, num_sequences=4, capacity=16)
    cuts = [2, 3, 4, 6]
    first = body(Packed.from_sequences([s[:cut] for s, cut in zip(sequences, cuts, strict=True)]), cache=cache)
    wanted = torch.cat([states[:cut] for states, cut in zip(whole, cuts, strict=True)])
    torch.testing.assert_close(first.last, wanted, atol=1e-5, rtol=1e-5)
    for step in (1, 1, 3):
        batch = Packed.from_sequences([s[cut : cut + step] for s, cut in zip(sequences, cuts, strict=True)])
        wanted = torch.cat([states[cut : cut + step] for states, cut in zip(whole, cuts, strict=True)])
        torch.testing.assert_close(body(batch, cache=cache).last, wanted, atol=1e-5, rtol=1e-5)
        cuts = [cut + step for cut in cuts]


def test_cache_follows_chosen_sequences():
    body = stack(POSITIONS["learned"], causal=True)
    cache = KeyValueCache(num_layers=5, num_sequences=2, capacity=8)
    body(Packed.from_sequences([[1, 2, 3], [4, 5]]), cache=cache)
    cache.select([1, 0, 1])
    out = body(Packed.from_sequences([[6], [7], [8]]), cache=cache).last
    for row, sequence in enumerate([[4, 5, 6], [1, 2, 3, 7], [4, 5, 8]]):
        torch.testing.assert_close(out[row], body(Packed.from_sequences([sequence])).last[-1], atol=1e-5, rtol=1e-5)


BOY_HIT_BALL = [1, 2, 3, 1, 4]  # the boy hit the ball
BALL_HIT_BOY = [1, 4, 3, 1, 2]  # the ball hit the boy


@pytest.mark.parametrize("kind", POSITIONS)
def test_the_boy_hit_the_ball(kind):
    """With positions the two sentences differ, word by word; without, they are the same set of vectors."""
    body = stack(POSITIONS[kind])
    boy, ball = (body(Packed.from_sequences([ids])).last for ids in (BOY_HIT_BALL, BALL_HIT_BOY))
    assert (boy[1] - ball[4]).abs().max() > 1e-3
    body = stack(NOWHERE)
    boy, ball = (body(Packed.from_sequences([ids])).last for ids in (BOY_HIT_BALL, BALL_HIT_BOY))
    order = [0, 4, 2, 3, 1]
    torch.testing.assert_close(boy, ball[order], atol=1e-5, rtol=1e-5)


def test_shared_layers_share():
    body = stack(POSITIONS["learned"], num_groups=1)
    assert len(body.blocks) == 1
    assert [body.blocks_of(layer) for layer in range(1, 6)] == [[0]] * 5
    two = stack(POSITIONS["learned"], num_groups=2, layers_per_group=2)
    assert [two.blocks_of(layer) for layer in range(1, 6)] == [[0, 1]] * 3 + [[2, 3]] * 2


def test_bad_configurations_explain_themselves():
    with pytest.raises(ConfigError, match="multiple of num_attention_heads"):
        LayerConfig(hidden_size=10, num_attention_heads=3, intermediate_size=5)
    with pytest.raises(ConfigError, match="unknown hidden_act 'gelo'"):
        LayerConfig(hidden_size=9, num_attention_heads=3, intermediate_size=5, hidden_act="gelo")
    with pytest.raises(ConfigError, match="even head size"):
        TransformerConfig(
            embeddings=EmbeddingConfig(vocab_size=3),
            positions=POSITIONS["rotary"],
            layer=LayerConfig(hidden_size=9, num_attention_heads=3, intermediate_size=5),
            num_hidden_layers=1,
        )


def test_heads_read_what_they_say():
    body = config(POSITIONS["learned"])
    heads = (
        HeadConfig(task="mlm", reads="tokens", num_labels=31, transform_size=24, transform_norm=True, tied=True),
        HeadConfig(task="classify", reads="mean", num_labels=4, transform_size=7),
        HeadConfig(task="nsp", reads="pooled", num_labels=2),
        HeadConfig(task="regress", reads="last", num_labels=1),
    )
    model = Model(ModelConfig(family="bertworks", body=body, pooler_act="tanh", heads=heads)).eval()
    batch = Packed.from_sequences([[1, 2, 3], [4, 5]])
    hidden = model.body(batch).last
    rows = batch.layout.rows(torch.tensor([1, 4]))
    assert model.logits(batch, "mlm", rows=rows).shape == (2, 31)
    torch.testing.assert_close(model.logits(batch, "mlm")[rows.index], model.logits(batch, "mlm", rows=rows))
    mean = torch.stack([hidden[:3].mean(0), hidden[3:].mean(0)])
    torch.testing.assert_close(model.logits(batch, "classify"), model.head("classify")(mean), atol=1e-5, rtol=1e-5)
    pooled = torch.tanh(model.pooler.dense(hidden[[0, 3]]))
    torch.testing.assert_close(model.logits(batch, "nsp"), model.head("nsp")(pooled), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(
        model.logits(batch, "regress"), model.head("regress")(hidden[[2, 4]]), atol=1e-5, rtol=1e-5
    )
    with pytest.raises(ModelError, match="no 'qa' head; it has: mlm, classify, nsp, regress"):
        model.logits(batch, "qa")
    kept = model.heads["mlm"]
    model.set_heads((heads[0], HeadConfig(task="tag", reads="tokens", num_labels=3)))
    assert list(model.heads) == ["mlm", "tag"]
    assert model.heads["mlm"] is kept


@pytest.mark.parametrize("kind", POSITIONS)
@pytest.mark.parametrize("variant", ["plain", "causal", "local"])
def test_half_precision_runs(kind, variant):
    """bfloat16 throughout, on both paths of attention, and under autocast with the stream kept in float32."""
    body = stack(POSITIONS[kind], **VARIANTS[variant])
    sequences = [torch.randint(0, 31, (length,)).tolist() for length in (5, 23)]
    batch = Packed.from_sequences(sequences)
    with torch.inference_mode():
        wanted = body(batch).last
        with torch.autocast("cpu", dtype=torch.bfloat16):
            mixed = body(batch).last
        whole = body.bfloat16()(batch).last
    assert whole.dtype == torch.bfloat16
    assert mixed.dtype == torch.float32
    assert (mixed - wanted).abs().max() < 0.2
    assert (whole.float() - wanted).abs().max() < 0.5


def test_no_rows_and_wrong_rows():
    body = stack(POSITIONS["rotary"])
    batch = Packed.from_sequences([[1, 2, 3], [4, 5]])
    assert body(batch, rows=batch.layout.rows(torch.zeros(0, dtype=torch.long))).last.shape == (0, 24)
    with pytest.raises(ValueError, match="ascending order"):
        batch.layout.rows(torch.tensor([4, 1]))


def test_the_window_follows_the_positions_given():
    body = stack(NOWHERE, local_window=2, global_every=2)
    far = Packed(
        input_ids=torch.tensor([1, 2]), layout=Packed.from_sequences([[1, 2]]).layout, positions=torch.tensor([0, 9])
    )
    near = Packed.from_sequences([[1, 2]])
    assert (body(far).last - body(near).last).abs().max() > 1e-3


def test_set_heads_makes_what_a_head_needs():
    model = Model(ModelConfig(family="bertworks", body=config(POSITIONS["learned"]), labels=("a", "b"))).eval()
    model.set_heads(
        [HeadConfig(task="classify", reads="pooled", num_labels=3, dropout_prob=0.5)], labels=("x", "y", "z")
    )
    batch = Packed.from_sequences([[1, 2, 3]])
    torch.testing.assert_close(model.logits(batch, "classify"), model.logits(batch, "classify"))
    assert model.config.pooler_act == "tanh"
    assert model.config.labels == ("x", "y", "z")
    assert float(model.pooler.dense.bias.detach().abs().max()) == 0.0
    with pytest.raises(ValueError, match="rows are for heads that read tokens"):
        model.logits(batch, "classify", rows=batch.layout.first())


def test_cross_attention_follows_chosen_sequences():
    torch.manual_seed(0)
    decoder = Transformer(config(POSITIONS["learned"], causal=True, cross_attention=True)).eval()
    memory = Memory(torch.randn(7, 24), Layout([3, 4]))
    swapped = Memory(torch.cat([memory.hidden[3:], memory.hidden[:3]]), Layout([4, 3]))
    cache = KeyValueCache(num_layers=5, num_sequences=2, capacity=8)
    decoder(Packed.from_sequences([[1, 2], [3]]), memory=memory, cache=cache)
    cache.select([1, 0])
    stepped = decoder(Packed.from_sequences([[4], [5]]), memory=swapped, cache=cache).last
    whole = decoder(Packed.from_sequences([[3, 4], [1, 2, 5]]), memory=swapped).last
    torch.testing.assert_close(stepped, whole[[1, 4]], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("section", "values", "message"),
    [
        (LayerConfig, {"hidden_size": 8, "num_attention_heads": 0, "intermediate_size": 5}, "num_attention_heads is 0"),
        (EmbeddingConfig, {"vocab_size": -5}, "vocab_size is -5; it must be at least 1"),
        (PositionConfig, {"num_buckets": 2}, "num_buckets is 2"),
        (HeadConfig, {"task": "tag", "reads": "tokens", "num_labels": 2, "dropout_prob": 7.0}, "below 1"),
    ],
)
def test_values_out_of_range(section, values, message):
    with pytest.raises(ConfigError, match=message):
        section(**values)
