"""The command line. Results go to stdout, the rest to stderr; a user's mistake is one line and exit code 2."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from efc.cli.bench import bench_command, sweep_command
from efc.cli.common import (
    CheckpointMinutes,
    Dataset,
    Device,
    Encoder,
    Engines,
    Heads,
    Log,
    Methods,
    RayAddress,
    Workers,
    check_folder,
    conclude,
    session_in,
)
from efc.cli.completion import one_of, several_of
from efc.cli.data import app as data_app
from efc.cli.doctor import doctor_command
from efc.cli.report import plot_command, report_command
from efc.cli.runs import app as runs_app
from efc.cli.theory import theory_command
from efc.core import ACTIVATIONS, SOLVERS
from efc.environment import code_version
from efc.errors import EFCError
from efc.files import write_atomically
from efc.runs.config import load_yaml, make_config, parse_set
from efc.runs.session import Means
from efc.streams import SCENARIOS
from efc.training.evaluation import EVALUATED

# \b: not to be wrapped.
EPILOG = """\b
Examples:
  efc run --methods efc,ewc,sgd --seeds 5 --out results/first
  efc report results/first --open
  efc bench --datasets digits,mnist --methods all --log tensorboard
  efc sweep --method efc --dataset digits --trials 64

\b
Exit codes: 0 done; 1 a method or a logger failed, other results are stored;
2 a mistake in what was asked for; 130 interrupted, the same command goes on.
"""

app = typer.Typer(
    help="Continual learning by Equilibrium Fisher Control: one task after another, no old samples kept.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(code_version())
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Continual learning by Equilibrium Fisher Control: one task after another, no old samples kept."""


@app.command(name="run", short_help="Train methods on a stream of tasks and compare them.")
def run_command(
    dataset: Dataset = None,
    encoder: Encoder = None,
    encoder_weights: Annotated[str | None, typer.Option(help="Weights for resnet18, torchvision's layout.")] = None,
    tasks: Annotated[int | None, typer.Option(help="Number of tasks. Default: 5 (tiny-imagenet: 10).")] = None,
    classes_per_task: Annotated[int | None, typer.Option(help="Default: 2 (tiny-imagenet: 20).")] = None,
    data_dir: Annotated[
        str | None, typer.Option(help="Where data are kept. Default: $EFC_DATA or the cache folder.")
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option(help="class, task, domain: one or several, with commas.", autocompletion=several_of(SCENARIOS)),
    ] = None,
    methods: Methods = None,
    head: Heads = None,
    seeds: Annotated[int | None, typer.Option(help="How many runs, side by side, from seed 0 on. Default: 5.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over each task's training data.")] = None,
    hidden: Annotated[str | None, typer.Option(help="Widths of the hidden layers. Default: 100,100.")] = None,
    activation: Annotated[
        str | None, typer.Option(help="relu, softplus, tanh or sigmoid.", autocompletion=one_of(ACTIVATIONS))
    ] = None,
    solver: Annotated[
        str | None,
        typer.Option(
            help="EFC's solver: relaxation, fixed_point, anderson, newton or steady_state.",
            autocompletion=one_of(SOLVERS),
        ),
    ] = None,
    evaluate: Annotated[
        str | None,
        typer.Option(help="Measure on test (default) or validation data.", autocompletion=one_of(EVALUATED)),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="YAML file, such as a saved config.yaml.")] = None,
    preset: Annotated[Path | None, typer.Option(help="Options found by efc sweep.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Any setting, e.g. efc.beta=0.1; may be repeated.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Results folder. Default: results/DATASET-HASH.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Compute again what --out holds already.")] = False,
    device: Device = None,
    engine: Engines = None,
    workers: Workers = None,
    ray_address: RayAddress = None,
    checkpoint_minutes: CheckpointMinutes = 5.0,
    log: Log = None,
    json: Annotated[bool, typer.Option("--json", help="Print the results as one JSON document on stdout.")] = False,
) -> None:
    """Train methods on a stream of tasks and compare them.

    For instance: efc run --methods efc,ewc,sgd --scenario class,task --seeds 5

    Interrupted, it goes on where it stopped when the same command is given again.
    """
    flags: dict[str, Any] = {
        "dataset": dataset, "encoder": encoder, "encoder_weights": encoder_weights, "tasks": tasks,
        "classes_per_task": classes_per_task, "data_dir": data_dir, "scenario": scenario, "methods": methods,
        "head": head, "seeds": seeds, "epochs": epochs, "hidden": hidden, "activation": activation, "solver": solver,
        "evaluate": evaluate, "device": device, "preset_file": None if preset is None else str(preset),
    }  # fmt: skip
    resolved = make_config(
        {} if config is None else load_yaml(config),
        {key: value for key, value in flags.items() if value is not None},
        *(parse_set(text) for text in set_ or []),
    )
    means = Means(engine or "local", workers or 1, ray_address, checkpoint_minutes, log=log or ())
    folder = out or Path("results") / f"{resolved.dataset.replace(':', '-').replace('/', '-')}-{resolved.digest()[:8]}"
    check_folder(folder, resolved.to_yaml(), overwrite)
    with session_in(folder, means) as session:
        write_atomically(folder / "config.yaml", resolved.to_yaml())
        plan = session.plan([resolved])
        if overwrite:
            session.forget(plan)
            plan = session.plan([resolved])
        for text in plan.described:
            session.tell(text)
        conclude(session, plan, session.compute(plan), json)


app.command(name="bench", short_help="Methods x data sets x scenarios x seeds, from one store.")(bench_command)
app.command(name="sweep", short_help="Search for good settings on validation data.")(sweep_command)
app.command(name="report", short_help="Write the page with table and figures.")(report_command)
app.command(name="plot", short_help="Draw a figure for a paper.")(plot_command)
app.command(name="theory", short_help="Put the paper's claims to the test.")(theory_command)
app.command(name="doctor", short_help="Say what is installed, what is missing, how to mend it.")(doctor_command)
app.add_typer(runs_app, name="runs", short_help="List, show, compare and export stored runs.")
app.add_typer(data_app, name="data")


def main() -> None:
    """Entry point: user mistakes become one line on stderr and exit code 2."""
    try:
        app()
    except EFCError as mistake:
        print(f"efc: {mistake}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("efc: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
