"""``logs/csv/metrics.csv``, one line per number, and ``params.csv``, one per setting.

A row is a line of the file, whatever is in its names (`efc.files.to_csv`); so what is there of a run can be told, and
taken away, line by line, and what is no row of ours is passed over.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path

from efc.files import make_folder, to_csv, write_atomically
from efc.loggers.base import Logger
from efc.loggers.values import Parameters, Value
from efc.runs.identity import Run

PLACE = ("run", "dataset", "scenario", "method", "head", "seed")
METRICS = (*PLACE, "name", "step", "value")
PARAMS = ("run", "name", "value")
LAST = "seconds"
"""The number that is written last: a run that has it is there whole."""


class CsvLogger(Logger):
    """Appends; nothing to install."""

    name = "csv"

    def __init__(self, folder: Path) -> None:
        place = make_folder(folder / "csv", "--out")
        self.metrics, self.params = place / "metrics.csv", place / "params.csv"
        for file, names in ((self.metrics, METRICS), (self.params, PARAMS)):
            if not file.exists():
                write_atomically(file, to_csv([names]))
        self._start()

    def _start(self) -> None:
        self.read_to = {self.metrics: 0, self.params: 0}
        self.met: set[str] = set()
        self.whole: set[str] = set()

    def holds(self, run: str) -> bool:
        """Others may have added lines since: those are read, not all of them again."""
        for file in self.read_to:
            with file.open("rb") as source:
                source.seek(self.read_to[file])
                new = source.read()
            ended = new[: new.rfind(b"\n") + 1]  # a line that was cut off does not count
            self.read_to[file] += len(ended)
            for line in map(_row, ended.split(b"\n")):
                self.met.add(line[0])
                if len(line) == len(METRICS) and line[-3] == LAST:
                    self.whole.add(line[0])
        return run in self.whole

    def forget(self, run: str) -> None:
        self.holds(run)
        if run not in self.met:
            return
        for file in self.read_to:
            head, *lines = file.read_bytes().split(b"\n")
            kept = [line for line in lines if _row(line)[0] not in ("", run)]
            write_atomically(file, b"".join(line + b"\n" for line in (head, *kept)))
        self._start()

    def write(self, run: Run, parameters: Parameters, values: Sequence[Value]) -> None:
        place = [run.id, *(getattr(run.settings, name) for name in PLACE[1:])]
        _append(self.params, to_csv([run.id, name, value] for name, value in parameters.items()))
        _append(self.metrics, to_csv([*place, v.name, v.step, v.value] for v in values))


def _row(line: bytes) -> list[str]:
    """The cells of a line; a single empty one if it is no row of a run."""
    if not re.match(rb"[0-9a-f]{16},", line):
        return [""]
    try:
        return next(csv.reader([line.decode("utf-8", "replace")]))
    except csv.Error:
        return [""]


def _append(file: Path, text: str) -> None:
    """In one go, after the last whole line: one that a full disk or a power loss has cut off goes."""
    with file.open("r+b") as target:
        end = target.seek(0, 2)
        while end > 0:
            target.seek(end - 1)
            if target.read(1) == b"\n":
                break
            end -= 1
        target.truncate(end)
        target.seek(end)
        target.write(text.encode())
