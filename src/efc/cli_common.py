"""What the commands that train have in common: flags, the folder, the end."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from efc.config import DEFAULT_METHODS
from efc.display import results_table, warnings
from efc.errors import EFCError
from efc.experiment import Plan
from efc.learners import LEARNERS
from efc.runs.driver import Report
from efc.session import Session, where_results_are, write_results

METHODS_HELP = (
    f"all, or one or several of {', '.join(LEARNERS)}, or your own as module:Class. "
    f"Default: {','.join(DEFAULT_METHODS)}."
)
Engines = Annotated[str | None, typer.Option("--engine", help="local (default) or ray.")]
Workers = Annotated[int | None, typer.Option("--workers", help="Worker processes, pinned to cores or GPUs.")]
RayAddress = Annotated[str | None, typer.Option("--ray-address", help="Ray cluster: auto, or HOST:PORT.")]
CheckpointMinutes = Annotated[
    float, typer.Option("--checkpoint-minutes", help="Checkpoint at least this often; tasks and epochs aside.")
]


def check_folder(folder: Path, settings: str, overwrite: bool) -> None:
    """Results of other settings are not mixed up with these, nor lost, unless asked for."""
    held = folder / "config.yaml"
    if overwrite or not (folder / "results.json").exists():
        return
    if not held.exists() or held.read_text(encoding="utf-8") != settings:
        raise EFCError(
            f"--out: {folder} already holds results of other settings; choose another folder or pass --overwrite"
        )


def command_line() -> str:
    return shlex.join(["efc", *sys.argv[1:]])


def conclude(session: Session, plan: Plan, report: Report, json: bool) -> None:
    """Write and print what there is, say what is missing, and leave with the right exit code."""
    if report.stopped:
        stored, asked = len(report.results), len(plan.runs)
        session.tell(
            f"efc: interrupted; {stored} of {asked} runs are stored, the others have a checkpoint: "
            "the same command goes on from there"
        )
        raise typer.Exit(130)
    document = plan.document(report, command_line())
    if document["rows"]:
        text = write_results(session.folder, document, session.tell)
        for line in warnings(document):
            session.tell(line)
        if json:
            print(text)
        else:
            Console().print(results_table(document))
        session.tell(where_results_are(session.folder))
    for pack, message in report.failures:
        session.tell(f"Failed: {pack.label}: {message}")
    if report.failures:
        raise typer.Exit(1)
