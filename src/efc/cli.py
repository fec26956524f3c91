"""The command line. Results go to stdout, the rest to stderr; a user's mistake is one line and exit code 2."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from efc.cli_bench import bench_command, sweep_command
from efc.cli_common import (
    METHODS_HELP,
    CheckpointMinutes,
    Engines,
    RayAddress,
    Workers,
    check_folder,
    conclude,
)
from efc.cli_data import app as data_app
from efc.cli_doctor import doctor_command
from efc.cli_report import plot_command, report_command
from efc.cli_runs import app as runs_app
from efc.config import load_yaml, make_config, parse_set
from efc.environment import code_version
from efc.errors import EFCError
from efc.runs.files import write_atomically
from efc.session import Means, Session

app = typer.Typer(
    help="Continual learning by Equilibrium Fisher Control: one task after another, no old samples kept.",
    no_args_is_help=True,
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


@app.command(name="run")
def run_command(
    dataset: Annotated[
        str | None,
        typer.Option(help="digits (default), mnist, fashion-mnist, cifar10, tiny-imagenet, npz:FILE or folder:DIR."),
    ] = None,
    encoder: Annotated[str | None, typer.Option(help="Frozen encoder: none, efficientnet-lite0 or resnet18.")] = None,
    encoder_weights: Annotated[str | None, typer.Option(help="Weights for resnet18, torchvision's layout.")] = None,
    tasks: Annotated[int | None, typer.Option(help="Number of tasks. Default: 5 (tiny-imagenet: 10).")] = None,
    classes_per_task: Annotated[int | None, typer.Option(help="Default: 2 (tiny-imagenet: 20).")] = None,
    data_dir: Annotated[
        str | None, typer.Option(help="Where data are kept. Default: $EFC_DATA or the cache folder.")
    ] = None,
    scenario: Annotated[str | None, typer.Option(help="class, task, domain: one or several, with commas.")] = None,
    methods: Annotated[str | None, typer.Option(help=METHODS_HELP)] = None,
    head: Annotated[
        str | None,
        typer.Option(help="random, least_squares, analytic, compensated: one or several. Default: each method's own."),
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="How many runs, side by side, from seed 0 on. Default: 5.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over each task's training data.")] = None,
    hidden: Annotated[str | None, typer.Option(help="Widths of the hidden layers. Default: 100,100.")] = None,
    activation: Annotated[str | None, typer.Option(help="relu, softplus, tanh or sigmoid.")] = None,
    solver: Annotated[
        str | None, typer.Option(help="EFC's solver: relaxation, fixed_point, anderson, newton or steady_state.")
    ] = None,
    evaluate: Annotated[str | None, typer.Option(help="Measure on test (default) or validation data.")] = None,
    config: Annotated[Path | None, typer.Option(help="YAML file, such as a saved config.yaml.")] = None,
    preset: Annotated[Path | None, typer.Option(help="Options found by efc sweep.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Any setting, e.g. efc.beta=0.1; may be repeated.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Results folder. Default: results/DATASET-HASH.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Compute again what --out holds already.")] = False,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or cuda:N.")] = None,
    engine: Engines = None,
    workers: Workers = None,
    ray_address: RayAddress = None,
    checkpoint_minutes: CheckpointMinutes = 5.0,
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
    means = Means(engine or "local", workers or 1, ray_address, checkpoint_minutes)
    folder = out or Path("results") / f"{resolved.dataset.replace(':', '-').replace('/', '-')}-{resolved.digest()[:8]}"
    check_folder(folder, resolved.to_yaml(), overwrite)
    console = Console(stderr=True)
    with Session(folder, means, console) as session:
        write_atomically(folder / "config.yaml", resolved.to_yaml())
        plan = session.plan([resolved])
        if overwrite:
            session.store.forget([run.id for run in plan.runs])
            plan = session.plan([resolved])
        for text in plan.described:
            session.tell(text)
        conclude(session, plan, session.compute(plan), json)


app.command(name="bench")(bench_command)
app.command(name="sweep")(sweep_command)
app.command(name="report")(report_command)
app.command(name="plot")(plot_command)
app.command(name="doctor")(doctor_command)
app.add_typer(runs_app, name="runs")
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
