"""Which layer? The table of `bertworks probe layers` on CoNLL-2003 for one or several models, kept as JSON.

    python -m benchmarks.layers minilm bertworks-en=DIR [--options "--seeds 3"] [--write-docs]

A model that is in the JSON file already is not repeated.
"""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import describe_machine
from benchmarks.options import ROOT, add_models, add_places, command_line, name_and_place, say
from benchmarks.report import table, write_json
from benchmarks.study import run

CACHE = ROOT / "benchmarks" / ".cache" / "layers"
FILES = ("--train", "DATA/conll2003/train.conll", "--dev", "DATA/conll2003/dev.conll")
"""DATA is the folder of the data sets."""


def probed(model: str, options: argparse.Namespace) -> dict[str, Any]:
    """The `probe.json` of a model, and how the command was typed."""
    from bertworks.cli.main import main as bertworks

    output = CACHE / Path(model).name
    files = [word.replace("DATA", str(options.data)) for word in FILES]
    more = ["--model", model, *shlex.split(options.options)]
    run(bertworks, ["probe", "layers", *files, *more, "-o", str(output), "--overwrite", "-q"])
    typed = shlex.join(["bertworks", "probe", "layers", *FILES, *more])
    result: dict[str, Any] = json.loads((output / "probe.json").read_text(encoding="utf-8"))
    data = {name.removeprefix("--"): file for name, file in zip(FILES[::2], FILES[1::2], strict=True)}
    return {"command": typed, **result, "data": result["data"] | data}  # without the places of this machine


def figures(entry: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """{layers: {tagger: F1}}, as the study ordered them."""
    found: dict[str, dict[str, float]] = {}
    for row in entry["rows"]:
        found.setdefault(row["layers"], {})[row["tagger"]] = row[entry["metric"]]
    return found


def taggers(entry: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(row["tagger"] for row in entry["rows"]))


def render(report: Mapping[str, Any]) -> str:
    parts = [
        "# Benchmark: which layer?\n",
        f"Written by `{report['command']}` on {report['machine']['date'][:10]}; do not edit by hand.\n",
        "CoNLL-2003, F1 on the development file; the encoder is frozen, a tagger reads its layers.\n",
    ]
    for name, entry in report["models"].items():
        found, columns = figures(entry), taggers(entry)
        titles = {row["layers"]: row["title"] for row in entry["rows"]}
        rows = [
            [title, *(f"{found[layers][tagger]:.1%}" if tagger in found[layers] else "" for tagger in columns)]
            for layers, title in titles.items()
        ]
        parts += [f"## {name}\n", f"`{entry['command']}`\n", table(["layers", *columns], rows) + "\n"]
    return "\n".join(parts)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.layers", description="Which layer?")
    add_models(parser)
    parser.add_argument("--options", default="", metavar="TEXT", help='for `probe layers`, e.g. "--seeds 3"')
    add_places(parser, "layers")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    CACHE.mkdir(parents=True, exist_ok=True)
    report: dict[str, Any] = {"benchmark": "layers", "models": {}}
    if options.output.exists():
        report = json.loads(options.output.read_text(encoding="utf-8"))
    report["command"] = command_line("layers", arguments)
    report["machine"] = describe_machine(2, ["bertworks", "torch"])
    for given in options.models:
        name, model = name_and_place(given)
        if name not in report["models"]:
            say(name)
            report["models"][name] = probed(model, options)
            write_json(report, options.output)
    if options.write_docs:
        (ROOT / "docs" / "benchmarks" / "layers.md").write_text(render(report), encoding="utf-8")
    print(render(report))


if __name__ == "__main__":
    main()
