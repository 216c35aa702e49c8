"""Strict configurations: frozen dataclasses that can be written to and read from a dict, JSON or TOML without loss.

A configuration is a frozen, keyword-only dataclass whose fields are `int`, `float`, `bool`, `str`, a `Literal`, an
optional one of these (`float | None`), a tuple of them, another such dataclass (a *section*), or one of several kinds of
section (`A | B`), which its keys tell apart. Nothing else: whatever can be said in Python can then be said in a TOML file
and, those kinds aside, on the command line. Values are resolved in one order: the defaults in the class, then one TOML
file, then `--set section.key=value`. An unknown key or a wrong type is an error that names the place; nothing is ignored.

TOML has no null. A `None` is left out where it is the default, and written as the word "none" where it is not.

Left out on purpose: includes, interpolation, several files, dictionaries with free keys.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import re
import tomllib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, Union

from bertworks.errors import ConfigError, did_you_mean

Config = TypeVar("Config")


# Reading: plain values in, a checked configuration out.


def from_dict(cls: type[Config], data: Mapping[str, Any], path: str = "") -> Config:
    """Build `cls` from plain values; `path` is the dotted place of `data` in the whole, for the errors."""
    return _built(cls, data, path, None)


def _built(cls: type[Config], data: Any, path: str, base: Config | None) -> Config:
    """`base` supplies what `data` leaves out: a section's default may differ from its class's defaults."""
    if not isinstance(data, Mapping):
        raise ConfigError(f"{path or 'the configuration'} must be a section with keys, not {_shown(data)}")
    annotations = _annotations(cls)
    for key in data:
        if key not in annotations:
            raise _unknown_key(path, key, annotations)
    values: dict[str, Any] = {}
    missing = []
    for field in _fields(cls):
        default = _default(field) if base is None else getattr(base, field.name)
        place = _join(path, field.name)
        if field.name not in data:
            values[field.name] = default
            if default is dataclasses.MISSING:
                missing.append(place)
        elif dataclasses.is_dataclass(default) and isinstance(data[field.name], Mapping):
            values[field.name] = _built(type(default), data[field.name], place, default)
        else:
            values[field.name] = _checked(annotations[field.name], data[field.name], place)
    if missing:
        raise ConfigError(f"missing value for {', '.join(missing)}, which has no default")
    try:
        return cls(**values)
    except ConfigError as error:
        raise ConfigError(_with_full_name(str(error), cls, path)) from error


def _with_full_name(told: str, cls: type, path: str) -> str:
    """What a section says of one of its fields, with the field's name as `--set` takes it."""
    name, space, rest = told.partition(" ")
    field = name.rpartition(".")[2]
    known = field in _annotations(cls) and _join(path, field).endswith(name)
    return f"{_join(path, field)}{space}{rest}" if known else told


def from_json(cls: type[Config], text: str, source: str = "JSON") -> Config:
    """Build `cls` from a JSON object; `source` (a path, say) names it in the errors."""
    try:
        return from_dict(cls, json.loads(text))
    except json.JSONDecodeError as error:
        raise ConfigError(f"{source} is not valid JSON: {error}") from error
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from error


def from_toml(cls: type[Config], text: str, source: str = "TOML") -> Config:
    """Build `cls` from a TOML document; `source` (a path, say) names it in the errors."""
    try:
        return from_dict(cls, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source} is not valid TOML: {error}") from error
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from error


def resolve(
    cls: type[Config], file: str | Path | None = None, settings: Iterable[str] = (), base: Config | None = None
) -> Config:
    """The defaults of `cls`, or the values of `base`, then the TOML `file`, then the `settings` of `--set`.

    A value without a default may come from either of the two, so both are merged before anything is built.
    """
    data: dict[str, Any] = {}
    if file is not None:
        try:
            data = tomllib.loads(Path(file).read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"cannot read the configuration {file}: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{file} is not valid TOML: {error}") from error
    of_the_file = copy.deepcopy(data)
    for setting in settings:
        _apply(cls, data, setting)
    try:
        return _built(cls, data, "", base)
    except ConfigError as error:
        if file is not None and _fails_alike(cls, of_the_file, error, base):
            raise ConfigError(f"{file}: {error}") from error
        raise


def _fails_alike(cls: type[Config], data: Mapping[str, Any], error: ConfigError, base: Config | None) -> bool:
    """Whether a file's own values give the same error, so that it is the file's and not that of a `--set`."""
    try:
        _built(cls, data, "", base)
    except ConfigError as own:
        return str(own) == str(error)
    return False


def override(config: Config, settings: Iterable[str]) -> Config:
    """A copy of `config` with each `section.key=value` of `settings` applied, the last one winning."""
    data = to_dict(config)
    for setting in settings:
        _apply(type(config), data, setting)
    return from_dict(type(config), data)


# Writing.


def to_dict(config: Any) -> dict[str, Any]:
    """Plain values (sections as dicts, tuples as lists) such that `from_dict` gives an equal configuration."""
    return {field.name: _plain(getattr(config, field.name)) for field in _fields(type(config))}


def dotted(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """What `to_dict` gives, without nesting: (`train.optimizer.learning_rate`, value), in order."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from dotted(value, _join(path, name))
        else:
            yield _join(path, name), value


def to_json(config: Any) -> str:
    """The configuration as an indented JSON object."""
    return json.dumps(to_dict(config), indent=2, ensure_ascii=False) + "\n"


def to_toml(config: Any) -> str:
    """The configuration as a TOML document with one table per section."""
    return "\n".join(_toml_lines(config, ())).lstrip("\n") + "\n"


def _toml_lines(config: Any, path: tuple[str, ...]) -> list[str]:
    lines, sections = [], []
    for name, value in _toml_items(config):
        if dataclasses.is_dataclass(value):
            sections += ["", f"[{'.'.join((*path, name))}]", *_toml_lines(value, (*path, name))]
        else:
            lines.append(f"{name} = {_toml_value(value)}")
    return lines + sections


def _toml_items(config: Any) -> list[tuple[str, Any]]:
    """The fields to write: without each None that is the default, and with the word for each None that is not."""
    items = []
    for field in _fields(type(config)):
        value = getattr(config, field.name)
        if value is not None:
            items.append((field.name, value))
        elif _default(field) is not None:
            if _takes_none_as_text(_annotations(type(config))[field.name]):
                raise TypeError(
                    f"{type(config).__name__}.{field.name} needs the default None: TOML cannot tell its None from text"
                )
            items.append((field.name, "none"))
    return items


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, str):
        # A JSON string is a TOML string, but TOML also wants DEL escaped and knows no surrogate pairs (hence no \\u
        # for the rest).
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, tuple):
        return f"[{', '.join(_toml_value(item) for item in value)}]"
    if dataclasses.is_dataclass(value):
        return f"{{{', '.join(f'{name} = {_toml_value(item)}' for name, item in _toml_items(value))}}}"
    if value is None:
        raise TypeError("TOML cannot hold a None inside a tuple")
    return repr(value)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


# Checking one value against one annotation.


def _checked(annotation: Any, value: Any, path: str) -> Any:
    """`value` as the type that `annotation` says, or a `ConfigError` that names `path`."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)  # `1` is a fine way to write a probability
    if annotation in (int, float, bool, str):
        if type(value) is annotation:  # not isinstance: True is not a number here
            return value
    elif origin is Literal:
        for option in arguments:
            if type(option) is type(value) and option == value:
                return option
        hint = did_you_mean(value, [str(option) for option in arguments]) if isinstance(value, str) else ""
        raise ConfigError(f"{path} must be {_description(annotation)}, not {_shown(value)}{hint}")
    elif _is_optional(annotation):
        inner = _inner(annotation)
        if value is None or (value == "none" and not _takes_none_as_text(annotation)):
            return None
        return _checked(inner, value, path)
    elif origin is tuple:
        if isinstance(value, list | tuple):
            if arguments[-1] is Ellipsis:
                return tuple(_checked(arguments[0], item, f"{path}[{index}]") for index, item in enumerate(value))
            if len(value) == len(arguments):
                pairs = zip(arguments, value, strict=True)
                return tuple(_checked(kind, item, f"{path}[{index}]") for index, (kind, item) in enumerate(pairs))
    elif dataclasses.is_dataclass(annotation):
        if isinstance(value, annotation):  # type: ignore[arg-type]
            return value
        return from_dict(typing.cast(type, annotation), value, path)
    elif kinds := _kinds(annotation):
        if isinstance(value, kinds):
            return value
        keys = set(value) if isinstance(value, Mapping) else set()
        return from_dict(min(kinds, key=lambda kind: len(keys - _annotations(kind).keys())), value, path)
    else:
        raise TypeError(f"{path}: a configuration cannot have a field of type {annotation}")
    raise ConfigError(f"{path} must be {_description(annotation)}, not {_shown(value)}")


def _parsed(annotation: Any, text: str, path: str) -> Any:
    """The value that a person means by `text` after `--set path=`, given the type wanted there."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    try:
        if annotation is bool:
            return {"true": True, "false": False}[text.lower()]
        if annotation in (int, float):
            return annotation(text)
    except (ValueError, KeyError):
        raise ConfigError(f"{path} must be {_description(annotation)}, not {text!r}") from None
    if origin is Literal:
        return next((option for option in arguments if str(option) == text), text)
    if _is_optional(annotation):
        inner = _inner(annotation)
        literal_none = typing.get_origin(inner) is Literal and "none" in typing.get_args(inner)
        return None if text.lower() == "none" and not literal_none else _parsed(inner, text, path)
    if origin is tuple:
        items = [item.strip() for item in text.strip().removeprefix("[").removesuffix("]").split(",")]
        items = [] if items == [""] else items
        kinds = [arguments[0]] * len(items) if arguments[-1] is Ellipsis else list(arguments)
        if len(kinds) != len(items):
            raise ConfigError(f"{path} must be {_description(annotation)}, not {text!r}")
        return [
            _parsed(kind, item, f"{path}[{index}]") for index, (kind, item) in enumerate(zip(kinds, items, strict=True))
        ]
    if dataclasses.is_dataclass(annotation):
        keys = ", ".join(f"{path}.{field.name}" for field in dataclasses.fields(annotation))
        raise ConfigError(f"{path} is a section; set one of its keys: {keys}")
    return text


def _apply(cls: type, data: dict[str, Any], setting: str) -> None:
    """Put one `section.key=value` into `data`, the plain values of a `cls`."""
    name, equals, text = setting.partition("=")
    name = name.strip()
    if not equals or not name:
        raise ConfigError(f"a setting must look like section.key=value, not {setting!r}")
    *sections, key = name.split(".")
    owner, place, path = cls, data, ""
    for section in sections:
        annotations = _annotations(owner)
        if section not in annotations:
            raise _unknown_key(path, section, annotations)
        path = _join(path, section)
        annotation = annotations[section]
        annotation = _inner(annotation) if _is_optional(annotation) else annotation
        if not dataclasses.is_dataclass(annotation):
            raise ConfigError(f"{path} is a value, not a section; it has no key {name.removeprefix(path + '.')!r}")
        if place.get(section) is None:
            place[section] = {}
        elif not isinstance(place[section], dict):
            raise ConfigError(f"{path} must be a section with keys, not {_shown(place[section])}")
        owner, place = typing.cast(type, annotation), place[section]
    annotations = _annotations(owner)
    if key not in annotations:
        inside = [] if sections else [place for place in _sections(cls) if key in _annotations(_section(cls, place))]
        if inside:
            full = " or ".join(f"{section}.{key}" for section in inside)
            raise ConfigError(f"unknown key {key}; its full name is {full}")
        raise _unknown_key(path, key, annotations)
    place[key] = _parsed(annotations[key], text.strip(), name)


# What a class says of itself.


def _section(cls: type, name: str) -> type:
    annotation = _annotations(cls)[name]
    return typing.cast(type, _inner(annotation) if _is_optional(annotation) else annotation)


def _sections(cls: type) -> list[str]:
    """The names of the fields that are sections."""
    return [name for name in _annotations(cls) if dataclasses.is_dataclass(_section(cls, name))]


def _fields(cls: type) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(cls)


def _annotations(cls: type) -> dict[str, Any]:
    """Field name -> type; resolved from text because the classes use `from __future__ import annotations`."""
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in _fields(cls)}


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _is_optional(annotation: Any) -> bool:
    if typing.get_origin(annotation) not in (Union, types.UnionType):
        return False
    arguments = typing.get_args(annotation)
    return len(arguments) == 2 and type(None) in arguments


def _kinds(annotation: Any) -> tuple[type, ...]:
    """The classes of a section that may be of several kinds; () where the annotation is something else."""
    if typing.get_origin(annotation) not in (Union, types.UnionType):
        return ()
    arguments = typing.get_args(annotation)
    return arguments if all(dataclasses.is_dataclass(argument) for argument in arguments) else ()


def _inner(annotation: Any) -> Any:
    return next(argument for argument in typing.get_args(annotation) if argument is not type(None))


def _takes_none_as_text(annotation: Any) -> bool:
    """Whether the word "none" is itself a value of this optional type, so that it cannot stand for None."""
    inner = _inner(annotation)
    return inner is str or (typing.get_origin(inner) is Literal and "none" in typing.get_args(inner))


def _description(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return "one of " + ", ".join(str(option) for option in arguments)
    if _is_optional(annotation):
        return _description(_inner(annotation)) + " or none"
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            return f"a list, each item {_description(arguments[0])}"
        return f"a list of {len(arguments)} ({'; '.join(_description(argument) for argument in arguments)})"
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    return names.get(annotation, "a section")


def _shown(value: Any) -> str:
    text = repr(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    return re.sub(r"\s+", " ", text)


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _unknown_key(path: str, key: str, annotations: Mapping[str, Any]) -> ConfigError:
    known = ", ".join(annotations)
    return ConfigError(f"unknown key {_join(path, str(key))}{did_you_mean(str(key), annotations)}; known here: {known}")
