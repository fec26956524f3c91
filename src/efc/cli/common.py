"""What the commands that train have in common: flags, the folder, the end."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from efc.cli.completion import one_of, several_of
from efc.data.store import SPECS
from efc.encoders import ENCODERS
from efc.errors import EFCError
from efc.files import make_folder
from efc.learners import HEADS, LEARNERS
from efc.loggers import LOGGERS, Logs, check_names
from efc.report.folder import where_results_are, write_results
from efc.report.labels import warnings
from efc.report.terminal import PackProgress, Transfers, make_console, results_table
from efc.runs.config import DEFAULT_METHODS
from efc.runs.session import ENGINES, Means, Session, Sinks

DATASETS = ("digits", *SPECS, "npz:", "folder:")
METHODS_HELP = (
    f"all, or one or several of {', '.join(LEARNERS)}, or your own as module:Class. "
    f"Default: {','.join(DEFAULT_METHODS)}."
)
Dataset = Annotated[
    str | None,
    typer.Option(
        "--dataset",
        help=f"digits (default), {', '.join(SPECS)}, npz:FILE or folder:DIR.",
        autocompletion=one_of(DATASETS),
    ),
]
Encoder = Annotated[
    str | None,
    typer.Option("--encoder", help=f"Frozen encoder: {', '.join(ENCODERS)}.", autocompletion=one_of(ENCODERS)),
]
Methods = Annotated[
    str | None, typer.Option("--methods", help=METHODS_HELP, autocompletion=several_of(["all", *LEARNERS]))
]
Heads = Annotated[
    str | None,
    typer.Option(
        "--head",
        help=f"{', '.join(HEADS)}; one or several.",
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
        help=f"{', '.join(LOGGERS)}: one or several, into OUT/logs.",
        autocompletion=several_of(LOGGERS),
    ),
]
Sets = Annotated[list[str] | None, typer.Option("--set", help="Any setting, e.g. efc.beta=0.1; may be repeated.")]
Engines = Annotated[
    str | None, typer.Option("--engine", help="local (default) or ray.", autocompletion=one_of(ENGINES))
]
Workers = Annotated[int | None, typer.Option("--workers", help="Worker processes, pinned to cores or GPUs.")]
RayAddress = Annotated[str | None, typer.Option("--ray-address", help="Ray cluster: auto, or HOST:PORT.")]
CheckpointMinutes = Annotated[
    float, typer.Option("--checkpoint-minutes", help="Checkpoint at least this often; tasks and epochs aside.")
]


@contextmanager
def session_in(folder: Path, means: Means, log: Sequence[str] | None) -> Iterator[Session]:
    """A session that speaks on stderr and logs; exit code 1 at its end if a logger has failed."""
    console, names = make_console(stderr=True), check_names(log or ())

    def tell(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    with ExitStack() as stack:
        make_folder(folder, "--out")
        logs = Logs(folder / "logs", names, tell)
        stack.callback(logs.close)
        sinks = Sinks(
            tell=tell,
            transfers=Transfers(console),
            progress=lambda packs: PackProgress(packs, console),
            stored=logs.log,
            forgotten=logs.forget,
        )
        yield stack.enter_context(Session(folder, means, sinks))
    if logs.failed:
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


def conclude(session: Session, folder: Path, json: bool) -> None:
    """Write and print what there is, say what is missing, and leave with the right exit code."""
    if not session.stopped:
        results = session.document(command_line())
        if results.rows:
            text = write_results(folder, results, session.tell)
            for line in warnings(results):
                session.tell(line)
            if json:
                print(text)
            else:
                make_console().print(results_table(results))
            session.tell(where_results_are(folder))
    finish(session)


def finish(session: Session) -> None:
    """Say what was interrupted or failed, and leave with its exit code."""
    if session.stopped:
        stored, asked = len(session.results), len(session.runs)
        session.tell(
            f"efc: interrupted; {stored} of {asked} runs are stored, the others have a checkpoint: "
            "the same command goes on from there"
        )
        raise typer.Exit(130)
    for pack, message in session.failures:
        session.tell(f"Failed: {pack.label}: {message}")
    if session.failures:
        raise typer.Exit(1)
