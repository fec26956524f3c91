"""What a person sees in the terminal: the table of results, and progress while it is being made."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from efc.config import Row, RunConfig


def results_table(document: dict[str, Any]) -> Table:
    """Method, head policy, accuracy, forgetting, seconds; one line per row of the document."""
    rows = document["rows"]
    seeds = len(rows[0]["seeds"])
    table = Table(
        title=f"{rows[0]['dataset']}, {len(rows[0]['tasks'])} tasks, {seeds} {'seed' if seeds == 1 else 'seeds'}",
        caption=f"accuracy on {rows[0]['evaluated_on']} data after the last task, mean ± standard deviation over seeds",
    )
    for name in ("scenario", "method", "head"):
        table.add_column(name)
    for name in ("accuracy %", "forgetting", "unsettled %", "seconds"):
        table.add_column(name, justify="right")
    for row in rows:
        unsettled = "" if row["unsettled"] is None else f"{100 * row['unsettled']['mean']:.2f}"
        note = f" ({len(row['diverged'])} diverged)" if row["diverged"] else ""
        table.add_row(
            row["scenario"],
            row["method"],
            row["head"],
            f"{row['accuracy']['mean']:.1f} ± {row['accuracy']['std']:.1f}{note}",
            f"{row['forgetting']['mean']:.1f}",
            unsettled,
            f"{row['seconds']:.1f}",
        )
    return table


class RunProgress:
    """A live bar per row on a terminal; one line per finished row in a log file."""

    def __init__(self, config: RunConfig, console: Console) -> None:
        self.console, self.tasks = console, config.tasks
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[at]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self.ids = {
            id(row): self.bars.add_task(_label(row), total=config.tasks * config.epochs, at="waiting", start=False)
            for row in config.rows
        }

    def __call__(self, row: Row, task: int, epoch: int, epochs: int) -> None:
        bar = self.ids[id(row)]
        if (task, epoch) == (1, 1):
            self.bars.start_task(bar)
        done = (task, epoch) == (self.tasks, epochs)
        at = "done" if done else f"task {task}/{self.tasks} epoch {epoch}/{epochs}"
        self.bars.update(bar, advance=1, at=at)
        if not self.console.is_terminal and epoch == epochs:
            self.console.print(f"{_label(row)}: task {task}/{self.tasks} learned", highlight=False)

    def __enter__(self) -> Self:
        self.bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bars.stop()


def _label(row: Row) -> str:
    return f"{row.method} ({row.head}, {row.scenario})"
