"""What a browser would do with a page, for the tests of pages."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "br"}
CLOSED_AT_ONCE = {*VOID, "line", "circle", "polyline"}


class Reader(HTMLParser):
    """Tags that are still open at the end, everything that would be fetched, scripts, and the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.scripts = 0
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in CLOSED_AT_ONCE

    def handle_data(self, data: str) -> None:
        self.text += data
