"""`efc sweep`: search for good settings on validation data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from efc.cli.common import (
    DATASETS,
    CheckpointMinutes,
    Device,
    Encoder,
    Engines,
    Heads,
    Log,
    RayAddress,
    Sets,
    Workers,
    command_line,
    finish,
    session_in,
)
from efc.cli.completion import one_of, several_of
from efc.errors import choose
from efc.files import write_atomically
from efc.learners import LEARNERS
from efc.report.terminal import make_console
from efc.runs.config import RunConfig, make_config, parse_set
from efc.runs.session import Means, Session
from efc.runs.trust import Trust
from efc.search import SAMPLERS, Budget, Space, Tried, UnfinishedError, on_border, parse_axes, spaces, sweep
from efc.search.preset_file import preset_text, read_presets
from efc.search.space import bounds
from efc.streams import SCENARIOS

PACKERS = ("axis", "none")


def sweep_command(
    method: Annotated[
        str,
        typer.Option(
            help="One or several methods, or your own as module:Class, which runs its code.",
            autocompletion=several_of(LEARNERS),
        ),
    ] = "efc",
    dataset: Annotated[str, typer.Option(help="The data set.", autocompletion=one_of(DATASETS))] = "digits",
    encoder: Encoder = None,
    scenario: Annotated[
        str,
        typer.Option(help="class, task, domain: one or several.", autocompletion=several_of(SCENARIOS)),
    ] = "class",
    head: Heads = None,
    trials: Annotated[int, typer.Option(help="Settings to try.")] = 64,
    seeds: Annotated[int, typer.Option(help="Seeds per setting.")] = 1,
    finalists: Annotated[int, typer.Option(help="The best so many settings are tried again...")] = 0,
    final_seeds: Annotated[int, typer.Option(help="... on so many further seeds, which decide.")] = 5,
    sampler: Annotated[
        str, typer.Option(help="random, narrowing, grid or optuna.", autocompletion=one_of(SAMPLERS))
    ] = "random",
    packer: Annotated[
        str,
        typer.Option(help="axis: settings train side by side; none: one by one.", autocompletion=one_of(PACKERS)),
    ] = "axis",
    storage: Annotated[str | None, typer.Option(help="Optuna storage URL. Default: the store's own file.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over each task's training data.")] = None,
    hidden: Annotated[str | None, typer.Option(help="Widths of the hidden layers.")] = None,
    axes: Annotated[
        list[str] | None, typer.Option("--search", help="Search this instead: beta=1e-3:1e4, normalise=none,neuron.")
    ] = None,
    save_as: Annotated[str | None, typer.Option(help="Name in the preset file. Default: the method's.")] = None,
    set_: Sets = None,
    data_dir: Annotated[str | None, typer.Option(help="Where data are kept.")] = None,
    out: Annotated[Path, typer.Option(help="Results folder.")] = Path("results/sweep"),
    preset: Annotated[Path | None, typer.Option(help="Preset file to add to. Default: OUT/DATASET.yaml.")] = None,
    device: Device = None,
    engine: Engines = None,
    workers: Workers = None,
    ray_address: RayAddress = None,
    checkpoint_minutes: CheckpointMinutes = 5.0,
    log: Log = None,
) -> None:
    """Search a method's declared space on the validation split; the best setting becomes a preset file.

    For instance: efc sweep --method efc --dataset digits --trials 64
    """
    budget = Budget(trials, seeds, finalists, final_seeds, sampler, storage)
    choose("--packer", packer, PACKERS)
    flags: dict[str, object] = {
        "methods": method, "scenario": scenario, "dataset": dataset, "encoder": encoder, "head": head,
        "epochs": epochs, "hidden": hidden, "device": device, "data_dir": data_dir, "validation": 0.25,
    }  # fmt: skip
    typed = [{key: value for key, value in flags.items() if value is not None}, *map(parse_set, set_ or [])]
    together = make_config(*typed, shipped=False, trust=Trust.of(*typed))
    searched = spaces(together, parse_axes(axes or []))
    means = Means(
        engine or "local",
        1 if workers is None else workers,
        ray_address,
        checkpoint_minutes,
        None if packer == "axis" else 1,
    )
    file = preset or out / f"{dataset.replace(':', '-').replace('/', '-')}.yaml"
    with session_in(out, means, log) as session:
        read_presets(file, together.rows, save_as)  # what is wrong with it must not cost the search
        for row, space in zip(together.rows, searched, strict=True):
            base = replace(together, rows=(row,))
            try:
                tried = sweep(session, base, space, budget)
            except UnfinishedError:
                finish(session)
                return
            existing = read_presets(file, base.rows, save_as)  # again: another search may have added to it
            write_atomically(
                file, preset_text(existing, base, tried, command_line(), budget.describe(), space, save_as)
            )
            _show_search(session, base, space, tried, file)


def _show_search(session: Session, base: RunConfig, space: Space, tried: Tried, file: Path) -> None:
    """The five best settings, and whether the best lies where the search ended."""
    row = base.rows[0]
    table = Table("validation %", "setting", title=f"{row.method}, {row.head} head, {row.scenario}-IL")
    for score, setting in tried[:5]:
        table.add_row(f"{score:.2f}", ", ".join(f"{key}={_short(value)}" for key, value in setting.items()))
    make_console().print(table)
    for name in on_border(space, tried[0][1]):
        low, high = bounds(space[name])
        session.tell(f"{name}: the best value lies on the border of the search ({low:g} to {high:g})")
    session.tell(f"{len(tried)} settings tried; the best is in {file}")


def _short(value: float | str) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
