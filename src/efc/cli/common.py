"""What the commands that train have in common: flags, the folder, the end."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from efc.cli.completion import one_of, several_of
from efc.cli.stopping import Stopping
from efc.data.store import SPECS
from efc.encoders import ENCODERS
from efc.errors import EFCError
from efc.files import make_folder
from efc.learners import HEADS, LEARNERS
from efc.loggers import LOGGERS, Logs, check_names
from efc.report.diagnosed import diagnosis_table
from efc.report.folder import where_results_are, write_results
from efc.report.labels import warnings
from efc.report.terminal import PackProgress, Transfers, make_console, results_table
from efc.runs.config import DEFAULT_METHODS, STREAM_METHODS
from efc.runs.session import ENGINES, Means, Session, Sinks

COMPUTED = ("runs", "checkpoints", "logs")
"""Where a folder has what was computed."""
DATASETS = ("digits", *SPECS, "npz:", "folder:")
METHODS_HELP = (
    f"all, or one or several of {', '.join(LEARNERS)}, or your own as module:Class, which runs its code. "
    f"Default: {','.join(DEFAULT_METHODS)}; of a stream without boundaries {','.join(STREAM_METHODS)}."
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
    typer.Option(
        "--encoder",
        help=f"Frozen encoder: {', '.join(ENCODERS)}, or your own as module:function, which runs its code.",
        autocompletion=one_of(ENCODERS),
    ),
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
Trusted = Annotated[
    bool, typer.Option("--trust", help="Let the --config and --preset files import code that they name.")
]
Engines = Annotated[
    str | None, typer.Option("--engine", help="local (default) or ray.", autocompletion=one_of(ENGINES))
]
Workers = Annotated[int | None, typer.Option("--workers", help="Worker processes, pinned to cores or GPUs.")]
RayAddress = Annotated[str | None, typer.Option("--ray-address", help="Ray cluster: auto, or HOST:PORT.")]
Diagnose = Annotated[
    bool,
    typer.Option(
        "--diagnose", help="Look at the features, too: how good they are, how far they drift, what the head loses."
    ),
]
CheckpointMinutes = Annotated[
    float, typer.Option("--checkpoint-minutes", help="Checkpoint at least this often; tasks and epochs aside.")
]


@contextmanager
def session_in(folder: Path, means: Means, log: Sequence[str] | None, plan_only: bool = False) -> Iterator[Session]:
    """A session that speaks on stderr and logs; exit code 1 at its end if a logger has failed."""
    console, names = make_console(stderr=True), check_names(log or ())

    def tell(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    with ExitStack() as stack:
        stack.enter_context(no_traces(folder, plan_only))
        make_folder(folder, "--out")
        logs = Logs(folder / "logs", names, tell)
        stack.callback(logs.close)
        sinks = Sinks(
            tell=tell,
            transfers=Transfers(console),
            progress=lambda packs: PackProgress(packs, console),
            stored=logs.log,
            forgotten=logs.forget,
            saving=Stopping.saving.set,
        )
        yield stack.enter_context(Session(folder, means, sinks))
    if logs.failed:
        raise typer.Exit(1)


@contextmanager
def no_traces(folder: Path, plan_only: bool = False) -> Iterator[None]:
    """A command that only plans, or fails before anything is computed, leaves no folder that was not there before."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        yield
    except EFCError:
        _remove_empty(folder, missing)
        raise
    if plan_only:
        _remove_empty(folder, missing)


def _remove_empty(folder: Path, missing: Sequence[Path]) -> None:
    """Remove what was ``missing`` before, unless something was computed there."""
    if missing and not any(path.is_file() for part in COMPUTED for path in (folder / part).rglob("*")):
        shutil.rmtree(folder, ignore_errors=True)
        for place in missing[1:]:
            with suppress(OSError):  # something else has come to lie in it
                place.rmdir()


def command_line() -> str:
    return shlex.join(["efc", *sys.argv[1:]])


def conclude(session: Session, folder: Path, json: bool) -> None:
    """Write and print what there is, say what is missing, and leave with the right exit code."""
    if not session.stopped:
        results = session.document(command_line())
        if results.rows:
            text = write_results(folder, results, session.tell)
            for line in warnings(replace(results, failed=[])):  # of failures more is told at the end
                session.tell(line)
            if json:
                print(text)
            else:
                make_console().print(results_table(results))
                diagnosis_table(results, make_console())
            session.tell(where_results_are(folder))
    finish(session)


def finish(session: Session) -> None:
    """Say what was interrupted or failed, and leave with its exit code."""
    if session.stopped:
        stored, asked, kept = len(session.results), len(session.runs), session.checkpointed()
        others = f", {kept} have a checkpoint" if kept else ""
        session.tell(
            f"efc: interrupted; {stored} of {asked} runs are stored{others}; the same command goes on from there"
        )
        raise typer.Exit(130)
    for pack, message in session.failures:
        session.tell(f"Failed: {pack.label}: {message}")
    if session.failures:
        raise typer.Exit(1)
