"""Configurations: strict reading, lossless writing, one order of precedence."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks import config
from bertworks.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    learning_rate: float = 1e-4
    betas: tuple[float, float] = (0.9, 0.999)
    clip_norm: float | None = 1.0
    name: Literal["adamw", "sgd"] = "adamw"


@dataclass(frozen=True, kw_only=True)
class Stage:
    steps: int = 3
    note: str | None = None


@dataclass(frozen=True, kw_only=True)
class Run:
    title: str = "run"
    seed: int = 0
    shuffle: bool = True
    budget: str | None = None
    files: tuple[str, ...] = ()
    pooling: Literal["mean", "none"] | None = None
    optimizer: Optimizer = Optimizer(learning_rate=5e-5)
    warmup: Stage | None = None
    stages: tuple[Stage, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Needy:
    path: str
    size: int = 1


# Any text that UTF-8 can hold, quotation marks, line ends and control characters included.
texts = st.text(st.characters(exclude_categories=["Cs"]))
numbers = st.floats(allow_nan=False)
optimizers = st.builds(
    Optimizer,
    learning_rate=numbers,
    betas=st.tuples(numbers, numbers),
    clip_norm=st.none() | numbers,
    name=st.sampled_from(["adamw", "sgd"]),
)
stages = st.builds(Stage, steps=st.integers(), note=st.none() | texts)
runs = st.builds(
    Run,
    title=texts,
    seed=st.integers(),
    shuffle=st.booleans(),
    budget=st.none() | texts,
    files=st.lists(texts).map(tuple),
    pooling=st.sampled_from([None, "mean", "none"]),
    optimizer=optimizers,
    warmup=st.none() | stages,
    stages=st.lists(stages, max_size=3).map(tuple),
)


@given(runs)
def test_round_trip_through_dict_json_and_toml(run: Run) -> None:
    assert config.from_dict(Run, config.to_dict(run)) == run
    assert config.from_json(Run, config.to_json(run)) == run
    assert config.from_toml(Run, config.to_toml(run)) == run


@given(runs, st.integers(), texts.filter(lambda text: text == text.strip()))
def test_override_changes_only_what_is_named(run: Run, seed: int, title: str) -> None:
    changed = config.override(run, [f"seed={seed}", f"title={title}"])
    assert changed == dataclasses.replace(run, seed=seed, title=title)


def test_toml_by_hand() -> None:
    run = Run(title='say "hi"', optimizer=Optimizer(clip_norm=None), stages=(Stage(steps=7),))
    assert config.to_toml(run) == (
        'title = "say \\"hi\\""\n'
        "seed = 0\n"
        "shuffle = true\n"
        "files = []\n"
        "stages = [{steps = 7}]\n"
        "\n"
        "[optimizer]\n"
        "learning_rate = 0.0001\n"
        "betas = [0.9, 0.999]\n"
        'clip_norm = "none"\n'
        'name = "adamw"\n'
    )


def test_infinity_survives() -> None:
    run = Run(optimizer=Optimizer(clip_norm=float("inf")))
    assert tomllib.loads(config.to_toml(run))["optimizer"]["clip_norm"] == float("inf")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"sed": 1}, "unknown key sed (did you mean 'seed'?); known here: title, seed"),
        ({"optimizer": {"learning_rat": 1}}, "unknown key optimizer.learning_rat (did you mean 'learning_rate'?)"),
        ({"seed": "1"}, "seed must be a whole number, not '1'"),
        ({"seed": True}, "seed must be a whole number, not True"),
        ({"seed": 1.0}, "seed must be a whole number, not 1.0"),
        ({"shuffle": 1}, "shuffle must be true or false, not 1"),
        ({"title": 3}, "title must be text, not 3"),
        ({"files": "a.txt"}, "files must be a list, each item text, not 'a.txt'"),
        ({"files": ["a", 2]}, "files[1] must be text, not 2"),
        ({"optimizer": {"betas": [0.9]}}, "optimizer.betas must be a list of 2 (a number; a number), not [0.9]"),
        ({"optimizer": {"clip_norm": "lots"}}, "optimizer.clip_norm must be a number, not 'lots'"),
        (
            {"optimizer": {"name": "adam"}},
            "name must be one of adamw, sgd, not 'adam' (did you mean 'adamw'?)",
        ),
        ({"optimizer": 3}, "optimizer must be a section with keys, not 3"),
        ({"stages": [{"steps": "x"}]}, "stages[0].steps must be a whole number"),
    ],
)
def test_what_is_wrong_is_named(data: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config.from_dict(Run, data)
    assert message in str(caught.value)


def test_a_whole_number_will_do_for_a_number() -> None:
    rate = config.from_dict(Run, {"optimizer": {"learning_rate": 1}}).optimizer.learning_rate
    assert rate == 1.0
    assert isinstance(rate, float)


def test_a_section_keeps_the_defaults_of_its_owner() -> None:
    # Run starts with a learning rate of its own; naming another key of the section must not reset it.
    assert config.from_dict(Run, {"optimizer": {"name": "sgd"}}).optimizer == Optimizer(learning_rate=5e-5, name="sgd")


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("seed=1_000", {"seed": 1000}),
        ("title=123", {"title": "123"}),
        ("title=a=b", {"title": "a=b"}),
        ("title=", {"title": ""}),
        ("shuffle=False", {"shuffle": False}),
        ("budget=none", {"budget": None}),
        ("budget=30m", {"budget": "30m"}),
        ("pooling=none", {"pooling": "none"}),
        ("files=a.txt,b.txt", {"files": ("a.txt", "b.txt")}),
        ("files=[]", {"files": ()}),
        ("optimizer.learning_rate=3e-4", {"optimizer": Optimizer(learning_rate=3e-4)}),
        ("optimizer.clip_norm=none", {"optimizer": Optimizer(learning_rate=5e-5, clip_norm=None)}),
        ("optimizer.betas=0.8, 0.9", {"optimizer": Optimizer(learning_rate=5e-5, betas=(0.8, 0.9))}),
        ("warmup.steps=9", {"warmup": Stage(steps=9)}),
    ],
)
def test_settings_mean_what_a_person_means(setting: str, expected: dict[str, object]) -> None:
    assert config.override(Run(budget="1h"), [setting]) == dataclasses.replace(Run(budget="1h"), **expected)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("seed", "must look like section.key=value, not 'seed'"),
        ("=3", "must look like section.key=value"),
        ("seed=x", "seed must be a whole number, not 'x'"),
        ("shuffle=yes", "shuffle must be true or false, not 'yes'"),
        ("optimizer=adamw", "optimizer is a section; set one of its keys: optimizer.learning_rate"),
        ("seed.deep=1", "seed is a value, not a section; it has no key 'deep'"),
        ("optimiser.name=sgd", "unknown key optimiser (did you mean 'optimizer'?)"),
        ("optimizer.names=sgd", "unknown key optimizer.names (did you mean 'name'?)"),
        ("optimizer.betas=1", "optimizer.betas must be a list of 2"),
        ("optimizer.name=adam", "optimizer.name must be one of adamw, sgd"),
    ],
)
def test_wrong_settings(setting: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config.override(Run(), [setting])
    assert message in str(caught.value)


def test_defaults_then_file_then_settings(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text("seed = 1\n[optimizer]\nname = 'sgd'\nlearning_rate = 0.5\n", encoding="utf-8")
    run = config.resolve(Run, file, ["optimizer.learning_rate=0.25", "seed=2", "seed=3"])
    assert run == Run(seed=3, optimizer=Optimizer(name="sgd", learning_rate=0.25))
    assert config.resolve(Run) == Run()


def test_a_value_without_default_must_come_from_somewhere() -> None:
    assert config.resolve(Needy, settings=["path=x"]) == Needy(path="x")
    with pytest.raises(ConfigError, match="missing value for path, which has no default"):
        config.resolve(Needy)


def test_errors_of_settings_do_not_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text("seed = 1\n")
    with pytest.raises(ConfigError) as caught:
        config.resolve(Run, file, ["optimizer.name=sdg"])
    assert str(caught.value).startswith("optimizer.name must be")
    with pytest.raises(ConfigError, match=r"unknown key learning_rate; its full name is optimizer\.learning_rate"):
        config.resolve(Run, file, ["learning_rate=1"])


def test_errors_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    with pytest.raises(ConfigError, match=r"cannot read the configuration .*run\.toml"):
        config.resolve(Run, file)
    file.write_text("seed = \n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"run\.toml is not valid TOML"):
        config.resolve(Run, file)
    file.write_text("sed = 1\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"run\.toml: unknown key sed"):
        config.resolve(Run, file)
    with pytest.raises(ConfigError, match="not valid JSON"):
        config.from_json(Run, "{")
    with pytest.raises(ConfigError, match="must be a section with keys"):
        config.from_json(Run, json.dumps([1]))
    file.write_text("optimizer = 3\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="optimizer must be a section with keys, not 3"):
        config.resolve(Run, file, ["optimizer.name=sgd"])


@dataclass(frozen=True, kw_only=True)
class Square:
    side: int
    colour: str = "red"


@dataclass(frozen=True, kw_only=True)
class Circle:
    radius: int
    colour: str = "red"


@dataclass(frozen=True, kw_only=True)
class Drawing:
    shape: Square | Circle


def test_a_section_of_several_kinds_is_told_by_its_keys() -> None:
    for shape in (Square(side=2), Circle(radius=3, colour="blue")):
        drawing = Drawing(shape=shape)
        assert config.from_dict(Drawing, config.to_dict(drawing)) == drawing
        assert config.from_toml(Drawing, config.to_toml(drawing)) == drawing
    with pytest.raises(ConfigError, match=r"unknown key shape\.radios \(did you mean 'radius'\?\)"):
        config.from_dict(Drawing, {"shape": {"radius": 1, "radios": 2}})
    with pytest.raises(ConfigError, match=r"missing value for shape\.side"):
        config.from_dict(Drawing, {"shape": {}})
    with pytest.raises(ConfigError, match="shape must be a section with keys, not 3"):
        config.from_dict(Drawing, {"shape": 3})
