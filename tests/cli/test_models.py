"""`info`, `convert` and `fill` as a user types them."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file

import bertworks
from bertworks.cli.main import main
from bertworks.hub.files import read_object
from bertworks.hub.tensors import read_tensors
from bertworks.infer.saved import SavedTask, write_task


@pytest.fixture
def run(capsys):
    def call(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return call


def test_info(run, minilm_directory):
    code, out, _ = run("info", "minilm", "--json")
    facts = json.loads(out)
    assert code == 0
    assert (facts["family"], facts["layers"], facts["hidden_size"], facts["vocabulary"]) == ("bert", 6, 384, 30522)
    assert facts["parameters"] == 22_713_216
    assert facts["embeddings"] == {"pooling": "mean", "normalize": True, "window": 256}
    assert facts["problem"] is None
    code, out, _ = run("info", "minilm")
    assert code == 0
    assert "22,713,216" in out


def test_convert_round_trip(run, minilm_directory, tmp_path):
    code, out, _ = run("convert", "minilm", tmp_path / "half", "--dtype", "float16", "--json")
    assert code == 0
    assert json.loads(out)["bytes"] < 46e6
    assert run("convert", tmp_path / "half", tmp_path / "full")[0] == 0
    mine, theirs = load_file(tmp_path / "full" / "model.safetensors"), load_file(minilm_directory / "model.safetensors")
    assert set(mine) == set(theirs) - {"embeddings.position_ids"}
    for name, tensor in mine.items():
        assert (tensor - theirs[name]).abs().max() <= theirs[name].abs().max() / 1000
    code, _, err = run("convert", "minilm", tmp_path / "full")
    assert code == 2
    assert "exists already; choose another name or add --overwrite" in err
    assert run("convert", "minilm", tmp_path / "full", "--overwrite")[0] == 0
    assert (tmp_path / "full" / "modules.json").exists()


def test_convert_to_one_byte_a_number(run, weights_minidata, tmp_path):
    """Small on disk, floats everywhere else: it fills masks as before, and can itself be converted and put into int8."""
    code, out, _ = run("convert", weights_minidata, tmp_path / "small", "--dtype", "int8", "--json")
    assert code == 0
    told = json.loads(out)
    assert told["bytes"] < 1.1 * told["parameters"]
    assert not (tmp_path / "small" / "model.safetensors").exists()
    full, small = bertworks.load(weights_minidata), bertworks.load(tmp_path / "small")
    assert small.precision == "fp32"
    ours, theirs = (model.fill("首[MASK]")[0][0] for model in (small, full))
    assert ours.token == theirs.token
    assert ours.probability == pytest.approx(theirs.probability, abs=0.05)
    assert bertworks.load(tmp_path / "small", precision="int8").precision == "int8"
    assert run("convert", tmp_path / "small", tmp_path / "full")[0] == 0
    again = bertworks.load(tmp_path / "full").model.state_dict()
    assert all(torch.equal(again[name], weight) for name, weight in small.model.state_dict().items())


def test_convert_keeps_what_a_model_was_fine_tuned_for(run, weights_minidata, tmp_path):
    """Temperature, window and task go along; those of a model that is written over do not stay."""
    task = {"task": "choice", "metric": "accuracy"}
    assert run("convert", weights_minidata, tmp_path / "tuned")[0] == 0
    saved = SavedTask(task=task, decision={"temperature": 2.0}, window=99)
    write_task(tmp_path / "tuned", saved)
    content = read_object(tmp_path / "tuned" / "bertworks.json")
    for dtype in ("float16", "int8"):
        assert run("convert", tmp_path / "tuned", tmp_path / dtype, "--dtype", dtype)[0] == 0
        assert content.items() <= read_object(tmp_path / dtype / "bertworks.json").items()
    assert run("convert", weights_minidata, tmp_path / "int8", "--overwrite")[0] == 0
    assert not (tmp_path / "int8" / "bertworks.json").exists()
    assert run("convert", tmp_path / "tuned", tmp_path / "tuned", "--overwrite")[0] == 0  # onto itself
    assert read_object(tmp_path / "tuned" / "bertworks.json") == content


def test_convert_leaves_no_weights_that_would_be_read_instead(run, weights_minidata, tmp_path):
    old = tmp_path / "old"
    shutil.copytree(weights_minidata, old)
    assert (old / "pytorch_model.bin").exists()
    assert run("convert", old, old, "--dtype", "int8", "--overwrite")[0] == 0
    assert read_tensors(old).files == (old / "int8.safetensors",)
    assert run("convert", old, old, "--overwrite")[0] == 0
    assert read_tensors(old).files == (old / "model.safetensors",)


def test_convert_old_bin_to_safetensors(run, weights_minidata, tmp_path):
    code, _, _ = run("convert", weights_minidata, tmp_path / "albert")
    assert code == 0
    assert sorted(path.name for path in (tmp_path / "albert").iterdir()) == [
        "config.json",
        "model.safetensors",
        "special_tokens_map.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "vocab.txt",
    ]
    stale = ("modules.json", "config_sentence_transformers.json", "sentence_bert_config.json")
    for name in stale:  # what an embedding model that was there before would leave
        (tmp_path / "albert" / name).write_text("[]")
    assert run("convert", weights_minidata, tmp_path / "albert", "--overwrite")[0] == 0
    assert not any((tmp_path / "albert" / name).exists() for name in stale)
    code, out, _ = run("fill", "北京是中国的首[MASK]。", "--model", tmp_path / "albert", "--json", "--top-k", 2)
    assert code == 0
    ((best, second),) = json.loads(out)
    assert best["token"] == "都"
    assert set(second) == {"token", "probability"}


def test_fill_in_every_way(run, weights_minidata):
    code, out, _ = run("fill", "北京是中国的首[MASK]。", "--model", weights_minidata)
    assert code == 0
    assert "北京是中国的首都。" in out
    code, out, _ = run("fill", "[MASK]京是中国的首[MASK]。", "--model", weights_minidata, "--joint", "--json")
    assert code == 0
    assert set(json.loads(out)[0]) == {"tokens", "probability", "text"}
    code, out, _ = run("fill", "北京是[MASK]。", "--model", weights_minidata, "--target", "首都", "--target", "狗")
    assert code == 0
    assert out.splitlines()[0].split()[1] == "首都"


def test_fill_needs_a_model_that_can(run, minilm_directory):
    code, _, err = run("fill", "Paris is the [MASK] of France.", "--model", minilm_directory)
    assert code == 2
    assert "no masked-LM head; choose one that has" in err


@pytest.mark.parametrize("command", ["embed", "info", "convert", "fill"])
def test_missing_models_get_one_sentence(run, tmp_path, command):
    (tmp_path / "empty").mkdir()
    (tmp_path / "texts.txt").write_text("a\n", encoding="utf-8")
    for model in (tmp_path / "absent", tmp_path / "empty"):
        arguments = {
            "embed": ["embed", tmp_path / "texts.txt", "-o", tmp_path / "out.npy", "--model", model],
            "info": ["info", model],
            "convert": ["convert", model, tmp_path / "out"],
            "fill": ["fill", "a [MASK]", "--model", model],
        }[command]
        code, _, err = run(*arguments)
        assert code == 2
        assert str(model) in err
        assert len(err.strip().splitlines()) == 1


def test_damaged_models_get_one_sentence(run, minilm_directory, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(minilm_directory, broken)
    config = json.loads((broken / "config.json").read_text(encoding="utf-8"))

    def sentence() -> str:
        code, _, err = run("info", broken)
        if code == 0:  # `info` shows what it can; using the model is what fails
            code, _, err = run("fill", "a [MASK]", "--model", broken)
        assert code == 2
        assert len(err.strip().splitlines()) == 1
        return err

    (broken / "config.json").write_text(json.dumps({**config, "model_type": "bertt"}), encoding="utf-8")
    assert "unknown model_type 'bertt' (did you mean 'bert'?); known: bert, distilbert" in sentence()
    (broken / "config.json").write_text(json.dumps({**config, "intermediate_size": 1000}), encoding="utf-8")
    assert "wrong shape" in sentence()
    (broken / "config.json").write_text(json.dumps(config), encoding="utf-8")
    weights = (broken / "model.safetensors").read_bytes()
    (broken / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    assert str(broken / "model.safetensors") in sentence()
    (broken / "model.safetensors").write_bytes(b"\xff" * 1000)
    assert str(broken / "model.safetensors") in sentence()


def test_wrong_devices_and_tokenizers_get_one_sentence(run, minilm_directory, tmp_path):
    for device in ("gpu", "meta"):
        code, _, err = run("fill", "a [MASK]", "--device", device)
        assert code == 2
        assert f"unknown device '{device}'" in err
    broken = tmp_path / "broken"
    shutil.copytree(minilm_directory, broken)
    tokenizer = json.loads((broken / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer["model"]["vocab"]["unheardof"] = 30522
    (broken / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    code, _, err = run("fill", "a [MASK]", "--model", broken)
    assert code == 2
    assert "the tokenizer has 30523 tokens, but the model has vectors for only 30522" in err


@pytest.mark.parametrize(
    ("share", "shown"), [(1.0, "100.0%"), (0.313, "31.3%"), (0.0091, "0.91%"), (0.000123, "0.012%"), (0.0, "0%")]
)
def test_small_probabilities_are_not_nothing(share, shown):
    from bertworks.cli.fill import _percent

    assert _percent(share) == shown
