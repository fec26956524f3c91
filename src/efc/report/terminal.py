"""What a person sees in the terminal: the table of results, and progress while it is being made."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich import box
from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

from efc.errors import visible
from efc.paper.published import reported
from efc.report.fitting import Fitting
from efc.report.labels import method_label, status
from efc.report.streamed import streamed
from efc.runs.plan import Pack
from efc.runs.results import ResultRow, Results


class PlainConsole(Console):
    """Shows texts as they are: ``[/b]`` and ``:smile:`` in a name are letters, and nothing in it acts on a terminal."""

    def render_str(self, text: str, **style: Any) -> Text:
        return super().render_str(visible(text), **style | {"markup": False, "emoji": False})


def make_console(stderr: bool = False, width: int | None = None) -> Console:
    """Where to speak. A notebook shows what a terminal would as rubbish: there it is spoken to like a log file.

    The kernel also passes on to its shell commands that they should colour, which would make them think the same.
    """
    if "JPY_PARENT_PID" in os.environ or "matplotlib_inline" in os.environ.get("MPLBACKEND", ""):
        return PlainConsole(
            stderr=stderr, width=width or 80, force_terminal=False, force_jupyter=False, force_interactive=False
        )
    return PlainConsole(stderr=stderr, width=width)


def print_path(path: Path) -> None:
    """A result on stdout: for a person without anything that acts on a terminal, for a program byte by byte."""
    if sys.stdout.isatty() or not hasattr(sys.stdout, "buffer"):
        print(visible(str(path), ""))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(os.fsencode(path) + b"\n")


def results_table(results: Results) -> RenderableType:
    """One table per data set: method, head policy, accuracy (the paper's beside it, where it has one), forgetting."""
    groups: dict[tuple[str, str], list[ResultRow]] = {}
    for row in results.rows:
        groups.setdefault((row.dataset, row.encoder), []).append(row)
    return Group(*(_fitting(rows) for rows in groups.values()))


def _fitting(rows: list[ResultRow]) -> Fitting:
    """All columns fit 80; in narrower terminals some give way, first of all a scenario that is the same in all rows."""
    same = ["scenario"] if len({row.scenario for row in rows}) == 1 else []
    return Fitting(lambda without: _table(rows, without), ["sec", *same, "unsettled", "forgets"])


def _table(rows: list[ResultRow], without: Sequence[str]) -> Table:
    seeds, tasks = len(rows[0].seeds), len(rows[0].tasks)
    encoder = "" if rows[0].encoder == "none" else f" ({rows[0].encoder})"
    when = "at the end" if all(map(streamed, rows)) else "after the last task"
    table = Table(
        title=f"{rows[0].dataset}{encoder}, {_count(tasks, 'task')}, {_count(seeds, 'seed')}",
        caption=f"{when}, on {rows[0].evaluated_on} data, mean ± standard deviation over seeds",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    paper = any(reported(row) for row in rows)
    # The paper's figure takes the place of the forgetting, a status that of the time: eighty columns hold no more.
    troubled, streams = any(status(row) for row in rows), any(map(streamed, rows))
    columns = {
        **({"stream": _stream} if streams else {"scenario": lambda row: row.scenario}),
        "method": method_label,
        "head": lambda row: row.head,
        "accuracy %": _accuracy,
        **({"paper %": _paper} if paper else {"forgets": lambda row: _forgetting(row, tasks)}),
        **({"on the way %": _on_the_way} if streams else {"unsettled": _unsettled}),
        **({"status": status} if troubled else {"sec": _seconds}),
    }
    shown = {name: cell for name, cell in columns.items() if name not in without}
    for name in shown:
        named = name in ("stream", "scenario", "method", "head", "status")
        table.add_column(name, no_wrap=name != "status", justify="left" if named else "right")
    for row in rows:
        table.add_row(*(cell(row) for cell in shown.values()))
    if any(row.environments for row in rows):
        table.caption = f"{table.caption}\n* seeds of different environments"
    return table


def _stream(row: ResultRow) -> str:
    return str(row.config.get("stream", row.scenario))


def _on_the_way(row: ResultRow) -> str:
    """The share of samples that were answered rightly before they were learned; without a stream, what is unsettled."""
    seen = streamed(row)
    return f"{sum(one['accuracy'] for one in seen) / len(seen):.1f}" if seen else _unsettled(row)


def _unsettled(row: ResultRow) -> str:
    return "" if row.unsettled is None else f"{100 * row.unsettled.mean:.2f} %"


def _accuracy(row: ResultRow) -> str:
    """Nothing where all runs diverged: their answers are no measure. A star marks seeds of several environments."""
    if len(row.diverged) == len(row.seeds):
        return "-"
    return _spread(row.accuracy.mean, row.accuracy.std, len(row.seeds)) + ("*" if row.environments else "")


def _paper(row: ResultRow) -> str:
    theirs = reported(row)
    return _spread(*theirs, 5) if theirs else ""


def _seconds(row: ResultRow) -> str:
    return f"{row.seconds:.1f}" if row.seconds < 100 else f"{row.seconds:.0f}"


def _forgetting(row: ResultRow, tasks: int) -> str:
    return f"{row.forgetting.mean:.1f}" if tasks > 1 and len(row.diverged) < len(row.seeds) else ""


def _spread(mean: float, std: float, seeds: int) -> str:
    return f"{mean:.1f}" + (f" ± {std:.1f}" if seeds > 1 else "")


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


class Transfers:
    """Downloads and encodings, with rate and time left: a changing line on a terminal, one now and then in a log."""

    def __init__(self, console: Console, every: float = 10.0) -> None:
        self.console, self.every = console, 0.2 if console.is_terminal else every
        self.began: dict[str, tuple[float, int]] = {}
        self.told: dict[str, float] = {}

    def __call__(self, what: str, done: int, total: int | None) -> None:
        if done == 0 and total is None:  # an announcement
            self.console.print(what, highlight=False, markup=False, soft_wrap=True)
            return
        now = time.monotonic()
        start, first = self.began.setdefault(what, (now, done))
        finished = total is not None and done >= total
        if now - self.told.get(what, 0.0) < self.every and not finished:
            return
        self.told[what] = now
        rate = (done - first) / max(now - start, 1e-6)
        left = f", {(total - done) / rate:.0f} s left" if total and rate > 0 and not finished else ""
        share = f" of {_amount(total)} ({100 * done / total:.0f} %)" if total else ""
        line = f"{what}: {_amount(done)}{share}, {_amount(rate)}/s{left}"
        end = "\r" if self.console.is_terminal and not finished else "\n"
        self.console.print(line, highlight=False, markup=False, end=end)


def duration(seconds: float) -> str:
    """A time for a person: 8 s, 3 min, 2.5 h."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _amount(n: float) -> str:
    """A count for a person: 950, 12.3k, 4.5M."""
    for size, divisor, unit in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if n >= size:
            return f"{n / divisor:.1f}{unit}"
    return f"{n:.0f}"


class PackProgress:
    """A live bar per pack and one for all on a terminal; in a log file now and then a line, with the time left.

    There, every pack's end is told, of the tasks' ends the first ``FREE`` and then one in ten seconds, and of the
    epochs' ends one in a minute: a log grows with the work and the time, but not with the epochs.
    """

    FREE, TASK, EPOCH = 100, 10.0, 60.0

    def __init__(self, packs: Sequence[Pack], console: Console) -> None:
        self.console = console
        self.transfers = Transfers(console)
        self.bars = Progress(
            # Eighty columns: where it is tight the name is cut, not the numbers.
            TextColumn(
                "{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis", max_width=44)
            ),
            BarColumn(bar_width=8),
            TextColumn("{task.fields[at]}", markup=False, table_column=Column(no_wrap=True, min_width=18)),
            TimeRemainingColumn(
                compact=True, elapsed_when_finished=True, table_column=Column(no_wrap=True, min_width=5)
            ),
            console=console,
            disable=not console.is_terminal,
        )
        self.all = self.bars.add_task("all", total=sum(map(_epochs, packs)), at="") if len(packs) > 1 else None
        self.ids: dict[str, TaskID] = {}
        self.total = sum(map(_epochs, packs))
        self.first: dict[str, int] = {}
        self.done: dict[str, int] = {}
        self.lines, self.began, self.told = 0, time.monotonic(), time.monotonic()

    def __call__(self, pack: Pack, task: int, epoch: int, epochs: int) -> None:
        tasks = pack.settings.tasks
        if pack.id not in self.ids:
            self.ids[pack.id] = self.bars.add_task(visible(pack.label, ""), total=_epochs(pack), at="")
        done = (task - 1) * epochs + epoch
        self.first.setdefault(pack.id, done - 1)  # one that goes on from a checkpoint did not take this time
        self.done[pack.id] = done
        finished = done == tasks * epochs
        at = f"task {task}/{tasks} epoch {epoch}/{epochs}"
        # A terminal holds the bars of what is running; what is finished is counted in the one for all.
        self.bars.update(self.ids[pack.id], completed=done, at=at, visible=not finished or self.all is None)
        if self.all is not None:
            self.bars.update(self.all, completed=sum(self.done.values()))
        if not self.console.is_terminal:
            learned = epoch == epochs
            self._line(
                f"{pack.label}: task {task}/{tasks} learned" if learned else f"{pack.label}: {at}", learned, finished
            )

    def _line(self, text: str, learned: bool, finished: bool) -> None:
        """A line of a log, if it is time for one."""
        now = time.monotonic()
        wait = 0.0 if finished or (learned and self.lines < self.FREE) else self.TASK if learned else self.EPOCH
        if now - self.told < wait:
            return
        self.lines, self.told = self.lines + 1, now
        done = sum(self.done.values())
        rate = (done - sum(self.first.values())) / max(now - self.began, 1e-6)
        left = f", about {duration((self.total - done) / rate)} left" if done < self.total else ""
        self.tell(f"{text}; {100 * done // self.total} %{left}")

    def tell(self, text: str) -> None:
        """Say something above the bars."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def __enter__(self) -> Self:
        self.bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bars.stop()


def _epochs(pack: Pack) -> int:
    return pack.settings.tasks * pack.settings.epochs
