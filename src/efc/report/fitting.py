"""Tables that fit the terminal: columns give way, the least important ones first, and a line says which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table

Make = Callable[[Sequence[str]], Table]
UNLIMITED = 100_000


@dataclass(frozen=True)
class Fitting:
    """A table of as many columns as there is room for.

    Args:
        make: Makes the table without some columns.
        droppable: Columns that may be left out, in the order in which they go.
    """

    make: Make
    droppable: Sequence[str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for count in range(len(self.droppable) + 1):
            table = self.make(self.droppable[:count])
            if Measurement.get(console, options.update(max_width=UNLIMITED), table).maximum <= options.max_width:
                break
        yield table


def shortened(text: str, length: int) -> str:
    """A name cut in its middle: the end of a path says more than what lies before it."""
    return text if len(text) <= length else f"{text[: length // 3]}…{text[len(text) - (length - length // 3 - 1) :]}"
