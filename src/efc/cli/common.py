"""What the commands that train have in common: flags, the folder, the end."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from efc.api import Plan
from efc.cli.completion import one_of, several_of
from efc.data.store import SPECS
from efc.encoders import ENCODERS
from efc.errors import EFCError
from efc.learners import HEADS, LEARNERS
from efc.loggers import LOGGERS
from efc.report.labels import warnings
from efc.report.terminal import make_console, results_table
from efc.runs.config import DEFAULT_METHODS
from efc.runs.driver import Report
from efc.runs.session import ENGINES, Means, Session, where_results_are, write_results

DATASETS = ("digits", *SPECS, "npz:", "folder:")
METHODS_HELP = (
    f"all, or one or several of {', '.join(LEARNERS)}, or your own as module:Class. "
    f"Default: {','.join(DEFAULT_METHODS)}."
)
Dataset = Annotated[
    str | None,
    typer.Option(
        "--dataset",
        help="digits (default), mnist, fashion-mnist, cifar10, tiny-imagenet, npz:FILE or folder:DIR.",
        autocompletion=one_of(DATASETS),
    ),
]
Encoder = Annotated[
    str | None,
    typer.Option(
        "--encoder", help="Frozen encoder: none, efficientnet-lite0 or resnet18.", autocompletion=one_of(ENCODERS)
    ),
]
Methods = Annotated[
    str | None, typer.Option("--methods", help=METHODS_HELP, autocompletion=several_of(["all", *LEARNERS]))
]
Heads = Annotated[
    str | None,
    typer.Option(
        "--head",
        help="random, zero, least_squares, analytic, compensated, input_compensated; one or several.",
        autocompletion=several_of(HEADS),
    ),
]
Device = Annotated[
    str | None,
    typer.Option("--device", help="auto, cpu, cuda or cuda:N.", autocompletion=one_of(["auto", "cpu", "cuda"])),
]
Log = Annotated[
    list[str] | None,
    typer.Option(
        "--log",
        help="csv, tensorboard, mlflow, wandb: one or several, into OUT/logs.",
        autocompletion=several_of(LOGGERS),
    ),
]
Engines = Annotated[
    str | None, typer.Option("--engine", help="local (default) or ray.", autocompletion=one_of(ENGINES))
]
Workers = Annotated[int | None, typer.Option("--workers", help="Worker processes, pinned to cores or GPUs.")]
RayAddress = Annotated[str | None, typer.Option("--ray-address", help="Ray cluster: auto, or HOST:PORT.")]
CheckpointMinutes = Annotated[
    float, typer.Option("--checkpoint-minutes", help="Checkpoint at least this often; tasks and epochs aside.")
]


@contextmanager
def session_in(folder: Path, means: Means) -> Iterator[Session]:
    """A session that speaks on stderr; exit code 1 at its end if a logger has failed."""
    with Session(folder, means, make_console(stderr=True)) as session:
        yield session
    if session.logs.failed:
        raise typer.Exit(1)


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
            make_console().print(results_table(document))
        session.tell(where_results_are(session.folder))
    for pack, message in report.failures:
        session.tell(f"Failed: {pack.label}: {message}")
    if report.failures:
        raise typer.Exit(1)
