"""`efc runs check`: everything in a results folder verified, and mended where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from efc.errors import EFCError
from efc.files import leftovers
from efc.runs.checkpoint import Checkpoints
from efc.runs.database import DATABASE
from efc.runs.documents import damage_of, read_results_file
from efc.runs.inspection import look, sentences
from efc.runs.store import Store


@dataclass(frozen=True)
class Checked:
    """What was found."""

    faults: list[str]
    runs: int
    failures: int
    checkpoints: int

    def summary(self, folder: Path) -> str:
        counts = ((self.runs, "run"), (self.failures, "failure"), (self.checkpoints, "checkpoint"))
        held = ", ".join(f"{n} {what}{'s' * (n != 1)}" for n, what in counts)
        verdict = f"{len(self.faults)} faults" if len(self.faults) > 1 else "1 fault" if self.faults else "all is well"
        return f"{folder}: {held}: {verdict}"


def check(folder: Path, argument: str) -> Checked:
    """Read everything; nothing is changed."""
    found = look(folder, argument, thorough=True)
    faults = [found.problem] if found.problem else []
    faults += sentences(found.cases, mended=False)
    faults += [f"{DATABASE}: damaged notes of failures: {found.unreadable}"] if found.unreadable else []
    kept = [Checkpoints(place) for place in sorted(folder.glob("checkpoints/*")) if place.is_dir()]
    for checkpoints in kept:
        faults += checkpoints.faults().values()
    faults += [f"{file} was left behind by a process that was killed" for file in leftovers(folder)]
    faults += _documents(folder).values()
    return Checked(faults, len(found.records), len(found.failures), len(kept))


def repaired(folder: Path, argument: str, tell: Callable[[str], None]) -> Checked:
    """Mend what can be mended, say so, and check again."""
    look(folder, argument)  # it must be a results folder
    with Store(folder, tell, argument) as store:
        store.drop_damaged_failures()
    for place in sorted(folder.glob("checkpoints/*")):
        for text in Checkpoints(place).set_aside() if place.is_dir() else []:
            tell(text)
    for file in _documents(folder):
        file.replace(file.with_name(f"{file.name}.damaged"))
        tell(f"{file} is damaged; set aside as {file.name}.damaged: the command that wrote it writes it again")
    return check(folder, argument)


def _documents(folder: Path) -> dict[Path, str]:
    """What is wrong with the documents that the commands write again."""
    results, config = folder / "results.json", folder / "config.yaml"
    found = {}
    if results.exists():
        try:
            read_results_file(results, "DIR")
        except EFCError as problem:
            found[results] = str(problem).removeprefix("DIR: ")
    damage = damage_of(config) if config.exists() else ""
    return found | {config: f"{config} {damage}"} if damage else found
