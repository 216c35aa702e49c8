"""Models that are asked something, one after the other, beside those that were asked before."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

from benchmarks.options import name_and_place, say
from benchmarks.report import write_json


def ask_models(
    report: dict[str, Any],
    options: argparse.Namespace,
    measure: Callable[[str, Any], dict[str, Any]],
    tell: Callable[[dict[str, Any]], object],
) -> None:
    """Put what `measure` gets of each of `options.models` into the report, which has the rows of the file that is there, and
    write it after each; `tell` is what is said of a row."""
    import bertworks
    from bertworks.errors import BertworksError

    if options.output.exists():
        report["models"] = json.loads(options.output.read_text(encoding="utf-8"))["models"]
    for given in options.models:
        name, place = name_and_place(given)
        try:
            row = report["models"][name] = measure(name, bertworks.load(place))
        except BertworksError as error:
            sys.exit(f"{given}: {error}")
        say(f"{name}: {tell(row)}")
        write_json(report, options.output)
