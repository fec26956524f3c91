"""`efc run`: train methods on a stream of tasks and compare them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from efc.cli.common import (
    CheckpointMinutes,
    Dataset,
    Device,
    Diagnose,
    Encoder,
    Engines,
    Heads,
    Log,
    Methods,
    RayAddress,
    Sets,
    Trusted,
    Workers,
    conclude,
    session_in,
)
from efc.cli.completion import one_of, several_of
from efc.core import ACTIVATIONS, SOLVERS
from efc.runs.config import make_config, parse_set
from efc.runs.documents import check_folder, write_config
from efc.runs.session import Means
from efc.runs.settings_file import load_yaml
from efc.runs.trust import Trust
from efc.streams import KINDS, SCENARIOS
from efc.training import EVALUATED


def run_command(
    dataset: Dataset = None,
    encoder: Encoder = None,
    encoder_weights: Annotated[str | None, typer.Option(help="Weights for resnet18, torchvision's layout.")] = None,
    tasks: Annotated[
        str | None, typer.Option(help="Number of tasks. Default: auto, until all classes are learned.")
    ] = None,
    classes_per_task: Annotated[int | None, typer.Option(help="Default: 2 (tiny-imagenet: 20).")] = None,
    data_dir: Annotated[
        str | None, typer.Option(help="Where data are kept. Default: $EFC_DATA or the cache folder.")
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option(help="class, task, domain: one or several, with commas.", autocompletion=several_of(SCENARIOS)),
    ] = None,
    stream: Annotated[
        str | None,
        typer.Option(
            help="No tasks, samples as they arrive: blurred:0.25, random, recurring:3, drift:0.5 or single.",
            autocompletion=one_of(KINDS),
        ),
    ] = None,
    methods: Methods = None,
    head: Heads = None,
    seeds: Annotated[int | None, typer.Option(help="How many runs, side by side, from seed 0 on. Default: 5.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over each task's training data.")] = None,
    hidden: Annotated[
        str | None, typer.Option(help="Widths of the hidden layers. Default: 500, or the preset's.")
    ] = None,
    activation: Annotated[
        str | None, typer.Option(help=f"{', '.join(ACTIVATIONS)}.", autocompletion=one_of(ACTIVATIONS))
    ] = None,
    solver: Annotated[
        str | None,
        typer.Option(
            help=f"EFC's solver: {', '.join(SOLVERS)}.",
            autocompletion=one_of(SOLVERS),
        ),
    ] = None,
    evaluate: Annotated[
        str | None,
        typer.Option(help="Measure on test (default) or validation data.", autocompletion=one_of(EVALUATED)),
    ] = None,
    diagnose: Diagnose = False,
    config: Annotated[Path | None, typer.Option(help="YAML file, such as a saved config.yaml.")] = None,
    preset: Annotated[Path | None, typer.Option(help="Options found by efc sweep.")] = None,
    set_: Sets = None,
    trust: Trusted = False,
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
    flags: dict[str, object] = {
        "dataset": dataset, "encoder": encoder, "encoder_weights": encoder_weights, "tasks": tasks,
        "classes_per_task": classes_per_task, "data_dir": data_dir, "scenario": scenario, "stream": stream,
        "methods": methods, "head": head, "seeds": seeds, "epochs": epochs, "hidden": hidden, "activation": activation,
        "solver": solver, "evaluate": evaluate, "device": device,
        "preset_file": None if preset is None else str(preset), "diagnose": diagnose or None,
    }  # fmt: skip
    typed = [{key: value for key, value in flags.items() if value is not None}, *map(parse_set, set_ or [])]
    file = {} if config is None else load_yaml(config)
    resolved = make_config(file, *typed, trust=Trust.of(*typed, files=trust))
    means = Means(engine or "local", 1 if workers is None else workers, ray_address, checkpoint_minutes)
    folder = out or Path("results") / f"{resolved.dataset.replace(':', '-').replace('/', '-')}-{resolved.digest()[:8]}"
    check_folder(folder, resolved.to_yaml(), overwrite)
    with session_in(folder, means, log) as session:
        write_config(folder / "config.yaml", resolved.to_yaml())
        session.plan([resolved])
        if overwrite:
            session.forget()
            session.plan([resolved])
        for text in session.described:
            session.tell(text)
        session.compute()
        conclude(session, folder, json)
