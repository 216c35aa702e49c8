"""Settings: strict, written and read without loss, and never silently without meaning."""

from __future__ import annotations

import pytest

from bertworks.config import from_toml, override, resolve, to_toml
from bertworks.data.labelled.options import ReadOptions
from bertworks.errors import ConfigError
from bertworks.finetune.config import DataSection, FinetuneConfig, RunSection, TaskSection


def test_round_trip() -> None:
    run = RunSection(task="tag", model="minilm", train="a.conll", seeds=3, pinned=("train.epochs",))
    config = override(
        FinetuneConfig(run=run),
        ["data.option_columns=a,b", "data.header=false", "method.lora_rank=4", "train.evaluation.patience=2"],
    )
    assert from_toml(FinetuneConfig, to_toml(config)) == config


def test_a_file_goes_over_what_suits_the_data_and_a_setting_over_both(tmp_path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[train]\nepochs = 7\nbatch_size = 5\n")
    base = override(FinetuneConfig(), ["train.epochs=2", "train.batch_size=4", "train.optimizer.learning_rate=1e-4"])
    config = resolve(FinetuneConfig, file, ["train.batch_size=6"], base=base)
    assert (config.train.epochs, config.train.batch_size, config.train.optimizer.learning_rate) == (7.0, 6, 1e-4)
    file.write_text("[train]\nepochs = -1\n")
    with pytest.raises(ConfigError, match=r"mine.toml: train.epochs is -1"):
        resolve(FinetuneConfig, file, base=base)


def test_read_options_there_and_back() -> None:
    section = DataSection(text_column="review", header=False, multi_label=True, label_separator=";")
    options = section.options
    assert options == ReadOptions(text_column="review", header=False, multi_label=";")
    assert DataSection(multi_label=True).options.multi_label is True
    changed = section.with_options(ReadOptions(text_column="body", encoding="latin-1"))
    assert (changed.text_column, changed.encoding, changed.header, changed.label_separator) == (
        "body",
        "latin-1",
        False,
        ";",
    )
    assert section.with_options(ReadOptions(multi_label=True)).label_separator is None


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("train.sharded=true", "train.sharded is for pretraining"),
        ("train.epochs=0", "train.epochs is 0; allowed: above 0"),
        ("train.batch_size=0", "train.batch_size is 0"),
        ("data.dev_fraction=1", "data.dev_fraction is 1; allowed: between 0 and 1"),
        ("data.max_length=3", "data.max_length is 3; allowed: 8 or more"),
        ("data.label_separator=;", "set data.multi_label=true"),
        ("method.gradual_unfreezing=1.5", "method.gradual_unfreezing is 1.5; allowed: 0 to 1"),
        ("method.lora_rank=-1", "method.lora_rank is -1"),
        ("train.batch_tokens=5", "unknown key train.batch_tokens"),
    ],
)
def test_wrong_settings(setting: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        override(FinetuneConfig(), [setting])
    assert words in str(caught.value)


def test_a_setting_of_another_task() -> None:
    assert TaskSection(metric="mcc", class_weights="balanced").options("pair") == {
        "metric": "mcc",
        "class_weights": "balanced",
    }
    with pytest.raises(ConfigError, match=r"task.distribution means nothing to 'tag'; it is for: regress"):
        TaskSection(distribution="poisson").options("tag")
