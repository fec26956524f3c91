"""Results as they lie in a folder, and as they are written there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from efc.errors import EFCError, MissingError, install
from efc.files import write_atomically
from efc.report.figures import accuracy_matrices, draw
from efc.report.page import FILE, write_report
from efc.report.streamed import streamed
from efc.report.style import save
from efc.runs.database import DATABASE
from efc.runs.documents import read_results_file, results_text
from efc.runs.identity import digest
from efc.runs.inspection import FILES, look, sentences
from efc.runs.results import ResultRow, Results, RunResult

RESULTS = ("results.json", DATABASE)
Tell = Callable[[str], None]


def newest_results(root: Path = Path("results"), argument: str = "DIR") -> Path:
    """The folder below ``root`` whose results were written last."""
    found = [folder for folder in (root, *root.glob("*")) if any((folder / name).is_file() for name in RESULTS)]
    if not found:
        raise EFCError(f"{argument}: there are no results in {root.resolve()}; name a folder, or begin with: efc run")
    return max(found, key=lambda folder: max(_written(folder / name) for name in RESULTS))


def _written(file: Path) -> float:
    return file.stat().st_mtime if file.is_file() else 0.0


def read_results(folder: Path, argument: str = "DIR", tell: Tell = lambda text: None) -> Results:
    """What `results.json` holds; where there is none, all finished runs of the store."""
    if (folder / "results.json").exists():
        return read_results_file(folder / "results.json", argument)
    if not (folder / DATABASE).exists() and not (folder / FILES).is_dir():
        raise EFCError(
            f"{argument}: there is no results.json in {folder}; name a folder that efc run or efc bench wrote"
        )
    return _stored(folder, argument, tell)


def _stored(folder: Path, argument: str, tell: Tell) -> Results:
    """One row for all runs that differ in their seed alone, in the order of their first."""
    rows: dict[str, list[tuple[str, Mapping[str, Any], RunResult]]] = {}
    looked = look(folder, argument)
    for text in [*([looked.problem] if looked.problem else []), *sentences(looked.cases, mended=False)]:
        tell(f"{folder}: {text}")
    for record in looked.records:
        stored = record.stored()
        same = digest({name: value for name, value in stored.settings.items() if name != "seed"})
        rows.setdefault(same, []).append((record.id, stored.settings, RunResult.from_json(stored.result)))
    if not rows:
        raise EFCError(f"{argument}: no run in {folder} is finished yet")
    found = []
    for runs in rows.values():
        ids, settings_of, results = zip(*sorted(runs, key=lambda run: int(run[1]["seed"])), strict=True)
        found.append(ResultRow.of(settings_of, ids, results))
    return Results(found)


def write_results(folder: Path, results: Results, tell: Tell) -> str:
    """`results.json`, `matrices.png`, of streams `prequential.png`, and `report.html`; returns the JSON."""
    text = results_text(results)
    file, picture, answers = (folder / name for name in ("results.json", "matrices.png", "prequential.png"))
    same = file.is_file() and file.read_bytes() == text.encode()
    if same and picture.exists() and (folder / FILE).exists():
        return text  # asked again, nothing new
    write_atomically(file, text)
    for path in (picture, answers, folder / FILE):
        path.unlink(missing_ok=True)  # those of other results must not stay if these cannot be drawn
    made = {
        "picture": _not_made(lambda: accuracy_matrices(results, picture)),
        "report": _not_made(lambda: write_report(folder, results)),
    }
    if any(map(streamed, results.rows)):
        made["answers"] = _not_made(lambda: save(draw(results, "prequential", "page"), answers, dpi=150))
    _tell_what_is_missing(made, tell)
    return text


def add_report(folder: Path, results: Results, tell: Tell, protocol: str = "") -> None:
    """`report.html`, or why there is none; ``protocol`` is a sentence on how the rows were computed."""
    _tell_what_is_missing({"report": _not_made(lambda: write_report(folder, results, protocol=protocol))}, tell)


def _not_made(make: Callable[[], object]) -> EFCError | None:
    """Why it cannot be made; None if it is."""
    try:
        make()
    except EFCError as problem:
        return problem
    return None


def _tell_what_is_missing(problems: Mapping[str, EFCError | None], tell: Tell) -> None:
    """A line for each; one alone for all packages of a plain installation that are not there."""
    lacking = {what: problem for what, problem in problems.items() if isinstance(problem, MissingError)}
    if len(lacking) > 1:
        packages = " and ".join(dict.fromkeys(problem.package for problem in lacking.values()))
        extras = ",".join(dict.fromkeys(problem.extra for problem in lacking.values()))
        tell(f"No {' and no '.join(lacking)}: {packages} are missing; install them with: {install(extras)}")
    for what, problem in problems.items():
        if problem is not None and not (len(lacking) > 1 and what in lacking):
            tell(f"No {what}: {problem}")


def where_results_are(folder: Path) -> str:
    """The closing message."""
    report = folder / FILE
    return f"Results in {folder}" + (f"; to read them, open {report}" if report.exists() else "")
