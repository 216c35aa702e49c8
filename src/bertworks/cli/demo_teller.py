"""The demo's results in the terminal: with colours and lines there, as plain text in a pipe or a log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bertworks.cli.console import duration, print_result

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bertworks.cli.demo_finetune import FineTuned
    from bertworks.cli.demo_steps import Classes, LayerRow, LongText, ModelFacts, Search, TokenRow

NUM_STEPS = 8
PLAIN_WIDTH = 100  # columns where there is no terminal to ask


class Teller:
    """Says what the steps found: with colours and lines on a terminal, as plain text elsewhere, or not at all."""

    def __init__(self, *, quiet: bool) -> None:
        from rich.console import Console

        self.quiet = quiet
        self._console = Console(highlight=False)
        self._plain = not self._console.is_terminal
        if self._plain:
            self._console = Console(highlight=False, no_color=True, width=PLAIN_WIDTH)

    def show(self, what: RenderableType) -> None:
        if self.quiet:
            return
        if not self._plain:
            self._console.print(what)
            return
        with self._console.capture() as captured:
            self._console.print(what)
        for line in captured.get().splitlines():
            print_result(line.rstrip())  # a log is easier to compare without the spaces that fill up a table

    def text(self, text: str, style: str = "") -> None:
        """Lines as they are: brackets in texts are not markup."""
        from rich.text import Text

        self.show(Text(text, style=style))

    def line(self, text: str) -> None:
        """A line that is never wrapped: a path or a command, to be copied."""
        if not self.quiet:
            print_result(text)

    def step(self, number: int, title: str) -> None:
        self.text(f"{number}/{NUM_STEPS}  {title}", style="bold cyan")

    def table(self, rows: Sequence[Sequence[str]], columns: Sequence[str], *, right: Sequence[int] = ()) -> None:
        """A table; the columns numbered in `right` are aligned to the right."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None if self._plain else SIMPLE_HEAD, pad_edge=False, padding=(0, 1), header_style="dim")
        for index, column in enumerate(columns):
            table.add_column(column, justify="right" if index in right else "left", no_wrap=index in right)
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        self.show(table)
        if self._plain:  # elsewhere the table brings its own empty line
            self.text("")

    def question(self, question: str, answers: Sequence[tuple[float, str]]) -> None:
        """A question and what was found, with scores; a long answer goes on under its own beginning."""
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        self.text(f"? {question}", style="bold")
        grid = Table.grid(padding=(0, 2))
        for score, answer in answers:
            grid.add_row(Text(f"{score:.2f}"), Text(answer))
        self.show(Padding(grid, (0, 0, 0, 2), expand=False))

    def fine_tuned(self, found: FineTuned) -> None:
        """What the first step made."""
        self.table(
            [(name, f"{value:.1%}") for name, value in found.rows],
            (f"on {found.num_dev} messages it has not seen", "accuracy"),
            right=(1,),
        )
        for answer in found.answers:
            self.text(f"  {answer.label:<9} {answer.probability:>4.0%}  {answer.text}")
        self.text(
            f"\ntrained on {found.num_train} messages in {duration(found.seconds)}; how good it is, and where it errs:"
        )
        self.line(f"report: {found.report}\n")

    def model(self, facts: ModelFacts) -> None:
        window = "no limit" if facts.window is None else f"{facts.window} tokens"
        self.text(
            f"{facts.family}, {facts.num_parameters / 1e6:.1f} million parameters, {facts.num_layers} layers of width "
            f"{facts.hidden_size}, window: {window}"
        )
        self.text(f"{facts.texts_per_second:,.0f} short texts per second on this machine\n")

    def searches(self, searches: Sequence[Search]) -> None:
        for search in searches:
            self.question(search.query, [(hit.score, hit.text) for hit in search.hits])
        self.text("")

    def tokens(self, sentence: str, tokens: Sequence[TokenRow]) -> None:
        self.text(sentence, style="bold")
        self.table(
            [(row.token, f"{row.start}–{row.end}", row.original) for row in tokens],
            ("token", "characters", "in the text"),
            right=(1,),
        )

    def classes(self, classes: Classes) -> None:
        self.table(
            [
                ("frozen vectors", f"{classes.accuracy:.1%} ± {classes.spread:.1%}"),
                ("word counts (TF-IDF)", f"{classes.tfidf_accuracy:.1%}"),
                ("always the most frequent label", f"{classes.majority_accuracy:.1%}"),
            ],
            ("features", "accuracy (5-fold)"),
            right=(1,),
        )
        if classes.mixed_up_count:
            first, second = classes.mixed_up
            self.text(f"most mixed up: {first} and {second}, {classes.mixed_up_count} times; for example")
            for row in [row for row in classes.predictions if {row.label, row.predicted} == {first, second}][:2]:
                self.text(f"  {row.label}, taken for {row.predicted}: {row.text}")
            self.text("")

    def layers(self, layers: Sequence[LayerRow]) -> None:
        rows = [(row.layers, str(row.width), f"{row.accuracy:.1%}") for row in layers]
        self.table(rows, ("layers", "width", "accuracy"), right=(1, 2))

    def long_text(self, found: LongText) -> None:
        self.text(str(found))
        if found.num_windows > 1:
            first = (
                f"only its first window: {found.share_in_first:.0%} of the words, all that is left where texts are cut"
            )
            self.question(found.question, [(found.score_whole, "the whole text"), (found.score_first_window, first)])
        self.text("")

    def files(self, files: Sequence[tuple[Path, str]]) -> None:
        """Files, and what each is."""
        width = max(len(str(path)) for path, _ in files)
        for path, what in files:
            self.line(f"{path!s:<{width}}  {what}")
        self.line("")
