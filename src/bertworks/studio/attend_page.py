"""A picture of attention as one HTML file that needs no server, no network and no other file.

The page holds the studio's own modules: each becomes a function that returns what it exports, in the order of their imports,
so that no bundler is needed and no name of one module meets a name of another. The weights are in the page as 8 bits each,
compressed. Its Content-Security-Policy forbids every request.
"""

from __future__ import annotations

import json
import re
from html import escape
from importlib.resources import files
from posixpath import dirname, normpath
from typing import Any

from bertworks.studio.attention_data import COARSE, Picture

ENTRY = "attend.js"
STYLES = ("style.css", "attention.css")
LARGEST = 14_000_000
"""Bytes of weights in a page; where they are more, they are told apart in fewer steps."""

IMPORT = re.compile(r'^import \{ ([^}]+) \} from "([^"]+)";$', flags=re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", flags=re.MULTILINE)
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def attend_page(picture: Picture, model: str, *, layer: int | None = None, head: int | None = None) -> str:
    """The whole page. It opens at this layer and head, counted from 1; where neither is said, where the studio would."""
    opening: dict[str, Any] = {} if layer is None else {"layer": layer}
    if head is not None:
        opening["heads"] = [head]
    data = _embedded({**_payload(picture, model), "opening": opening or None})
    title = f"Attention: {picture.text[:80]}"
    style = "\n".join(_static(name) for name in STYLES)
    text = picture.text if picture.pair is None else f"{picture.text} / {picture.pair}"
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>\n<style>\n{style}</style></head>\n<body>",
            '<header class="top"><p class="brand">Bertworks <span>attention</span></p><nav></nav>',
            '<button type="button" id="theme" class="quiet">Dark</button></header>',
            f"<main><h1>{escape(text[:300])}{'…' if len(text) > 300 else ''}</h1>",
            '<p id="about" class="soft"></p><div id="view">The picture needs JavaScript.</div></main>',
            f'<script type="application/json" id="data">{data}</script>',
            f"<script>\n{bundle(ENTRY)}</script>",
            "</body></html>\n",
        ]
    )


def _payload(picture: Picture, model: str) -> dict[str, Any]:
    levels = COARSE
    while True:
        payload = picture.as_json(model, levels, small=True)
        if len(payload["weights"]) <= LARGEST or levels < 32:
            return payload
        levels //= 2


def _embedded(value: dict[str, Any]) -> str:
    """JSON that cannot end the script element in which it lies."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c").replace("\u2028", "\\u2028")


def bundle(entry: str) -> str:
    """A module and all that it imports as one plain script."""
    parts: dict[str, str] = {}
    _collect(entry, parts)
    script = "\n".join(parts.values())
    assert "</script" not in script
    return script


def _collect(path: str, parts: dict[str, str]) -> None:
    if path in parts:
        return
    text = _static(path)
    needed = {target: normpath(f"{dirname(path)}/{target}".lstrip("/")) for _, target in IMPORT.findall(text)}
    for module in needed.values():
        _collect(module, parts)
    exported = EXPORT.findall(text)
    text = IMPORT.sub(lambda found: f"const {{ {found[1]} }} = {_variable(needed[found[2]])};", text)
    text = EXPORT.sub("", text)
    assert not re.search(r"^(import|export)\b", text, flags=re.MULTILINE), f"{path}: write imports as {IMPORT.pattern}"
    body = f"{text}\nreturn {{ {', '.join(exported)} }};"
    parts[path] = f'const {_variable(path)} = (() => {{\n"use strict";\n{body}\n}})();'


def _variable(path: str) -> str:
    return "module_" + re.sub(r"\W", "_", path)


def _static(name: str) -> str:
    return (files("bertworks.studio") / "static" / name).read_text(encoding="utf-8")
