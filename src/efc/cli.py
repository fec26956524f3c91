"""The command line. Results go to stdout, the rest to stderr; a user's mistake is one line and exit code 2."""

from __future__ import annotations

import shlex
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from efc.cli_data import app as data_app
from efc.config import DEFAULT_METHODS, load_yaml, make_config, parse_set
from efc.display import RunProgress, results_table, warnings
from efc.environment import code_version
from efc.errors import EFCError
from efc.experiment import execute
from efc.learners import LEARNERS
from efc.output import prepare_folder, to_json, write_atomically
from efc.plots import accuracy_matrices

METHODS_HELP = (
    f"all, or one or several of {', '.join(LEARNERS)}, or your own as module:Class. "
    f"Default: {','.join(DEFAULT_METHODS)}."
)

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
        typer.Option(help="random, least_squares, analytic: one or several. Default: each method's shipped one."),
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
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Any setting, e.g. efc.beta=0.1; may be repeated.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Results folder. Default: results/run-DATE-TIME.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the results in --out.")] = False,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda or cuda:N.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the results as one JSON document on stdout.")] = False,
) -> None:
    """Train methods on a stream of tasks and compare them.

    For instance: efc run --methods efc,ewc,sgd --scenario class,task --seeds 5
    """
    flags: dict[str, Any] = {
        "dataset": dataset, "encoder": encoder, "encoder_weights": encoder_weights, "tasks": tasks,
        "classes_per_task": classes_per_task, "data_dir": data_dir, "scenario": scenario, "methods": methods,
        "head": head, "seeds": seeds, "epochs": epochs, "hidden": hidden, "activation": activation, "solver": solver,
        "evaluate": evaluate, "device": device,
    }  # fmt: skip
    resolved = make_config(
        {} if config is None else load_yaml(config),
        {key: value for key, value in flags.items() if value is not None},
        *(parse_set(text) for text in set_ or []),
    )
    folder = out or Path("results") / f"run-{datetime.now():%Y%m%d-%H%M%S}"
    prepare_folder(folder, overwrite)
    console = Console(stderr=True)
    try:
        with RunProgress(resolved, console) as progress:
            document = execute(
                resolved,
                command=shlex.join(["efc", *sys.argv[1:]]),
                listener=progress,
                data_progress=progress.transfers,
                announce=progress.announce,
            )
    except KeyboardInterrupt:
        console.print("efc: interrupted; no results were written", highlight=False)
        raise typer.Exit(130) from None
    text = to_json(document)
    write_atomically(folder / "config.yaml", resolved.to_yaml())
    write_atomically(folder / "results.json", text)
    try:
        accuracy_matrices(document, folder / "matrices.png")
    except EFCError as problem:
        console.print(f"No picture: {problem}", highlight=False, markup=False)
    for line in warnings(document):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if json:
        print(text)
    else:
        Console().print(results_table(document))
    console.print(f"Results in {folder}", highlight=False, markup=False, soft_wrap=True)


app.add_typer(data_app, name="data")


def main() -> None:
    """Entry point: user mistakes become one line on stderr and exit code 2."""
    try:
        app()
    except EFCError as mistake:
        print(f"efc: {mistake}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
