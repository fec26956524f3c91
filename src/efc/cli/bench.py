"""`efc bench` and `efc sweep`: many runs, one store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from efc.api import Plan
from efc.cli.bench_paper import bench_paper
from efc.cli.common import (
    DATASETS,
    CheckpointMinutes,
    Device,
    Encoder,
    Engines,
    Heads,
    Log,
    Methods,
    RayAddress,
    Workers,
    command_line,
    conclude,
    session_in,
)
from efc.cli.completion import one_of, several_of
from efc.errors import EFCError, choose
from efc.files import write_atomically
from efc.learners import LEARNERS, find_learner
from efc.paper.table import USUAL
from efc.report.terminal import duration, make_console
from efc.runs.config import RunConfig, load_yaml, make_config, parse_set
from efc.runs.identity import digest
from efc.runs.session import Means, Session, usual_workers
from efc.runs.timing import estimates
from efc.search.samplers import (
    FIRST_SEED,
    PACKERS,
    SAMPLERS,
    Setting,
    Space,
    Tried,
    on_border,
    parse_axes,
    preset_text,
    ranked,
    run_off,
    search,
    space_of,
    trial_config,
)
from efc.streams import SCENARIOS

Sets = Annotated[list[str] | None, typer.Option("--set", help="Any setting, e.g. efc.beta=0.1; may be repeated.")]


def bench_command(
    what: Annotated[str | None, typer.Argument(help="paper: the paper's whole table, from presets alone.")] = None,
    datasets: Annotated[
        str | None,
        typer.Option(
            help="One or several; with a frozen encoder as cifar10@resnet18. Default: digits.",
            autocompletion=several_of(DATASETS),
        ),
    ] = None,
    methods: Methods = None,
    scenarios: Annotated[
        str | None,
        typer.Option(help="class, task, domain: one or several.", autocompletion=several_of(SCENARIOS)),
    ] = None,
    head: Heads = None,
    seeds: Annotated[int | None, typer.Option(help="How many runs of each, from seed 0 on. Default: 5.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over each task's training data.")] = None,
    hidden: Annotated[str | None, typer.Option(help="Widths of the hidden layers. Default: 100,100.")] = None,
    config: Annotated[Path | None, typer.Option(help="YAML file with the same keys, and `datasets`.")] = None,
    preset: Annotated[Path | None, typer.Option(help="Options found by efc sweep.")] = None,
    set_: Sets = None,
    data_dir: Annotated[str | None, typer.Option(help="Where data are kept.")] = None,
    out: Annotated[Path, typer.Option(help="Results folder; may hold many benchmarks.")] = Path("results/bench"),
    device: Device = None,
    engine: Engines = None,
    workers: Workers = None,
    ray_address: RayAddress = None,
    checkpoint_minutes: CheckpointMinutes = 5.0,
    log: Log = None,
    pack: Annotated[int | None, typer.Option(help="Runs trained side by side at most. Default: what fits.")] = None,
    features: Annotated[
        list[str] | None, typer.Option(help="For paper: features in place of an encoder's, cifar10-resnet18=npz:FILE.")
    ] = None,
    lines: Annotated[
        str | None, typer.Option(help="For paper: lines whose name contains this; several with semicolons.")
    ] = None,
    plan_only: Annotated[bool, typer.Option("--plan", help="Show the plan and stop.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the results as one JSON document on stdout.")] = False,
) -> None:
    """Methods x data sets x scenarios x seeds: what is stored is not computed again.

    For instance: efc bench --datasets digits,mnist --methods all --seeds 5
    """
    if what is not None:
        choose("bench", what, ("paper",))
        clash = {"--methods": methods, "--head": head, "--epochs": epochs, "--hidden": hidden, "--config": config,
                 "--preset": preset, "--set": set_}  # fmt: skip
        for name, value in clash.items():
            if value is not None:
                raise EFCError(f"{name}: the paper's table is fixed; leave it out")
        given = {"seeds": seeds, "device": device, "data_dir": data_dir}
        means = Means(
            engine or "local",
            workers or usual_workers(device or "auto"),
            ray_address,
            checkpoint_minutes,
            pack,
            log or (),
        )
        with session_in(out, means) as session:
            bench_paper(
                session, (datasets or ",".join(USUAL)).split(","), scenarios.split(",") if scenarios else (),
                features or (), lines or "", {key: value for key, value in given.items() if value is not None},
                show_plan, plan_only, json,
            )  # fmt: skip
        return
    if lines is not None:
        raise EFCError("--lines: belongs to the paper's table, `efc bench paper`; choose --methods and --head here")
    flags = {
        "methods": methods, "scenario": scenarios, "head": head, "seeds": seeds, "epochs": epochs, "hidden": hidden,
        "device": device, "data_dir": data_dir, "preset_file": None if preset is None else str(preset),
    }  # fmt: skip
    file = {} if config is None else load_yaml(config)
    named = file.pop("datasets", None) if datasets is None else datasets
    if "scenarios" in file:
        file["scenario"] = file.pop("scenarios")
    given = {key: value for key, value in flags.items() if value is not None}
    configs = [
        make_config({"dataset": name, "encoder": encoder}, file, given, *(parse_set(text) for text in set_ or []))
        for name, encoder in _datasets(named)
    ]
    means = Means(
        engine or "local", workers or usual_workers(configs[0].device), ray_address, checkpoint_minutes, pack, log or ()
    )
    with session_in(out, means) as session:
        plan = session.plan(configs)
        show_plan(session, plan)
        if not plan_only:
            conclude(session, plan, session.compute(plan), json)


def _datasets(named: Any) -> list[tuple[str, str]]:
    """(name, encoder) pairs of ``digits,cifar10@resnet18``, or of a list."""
    names = named.split(",") if isinstance(named, str) else list(named or ["digits"])
    pairs = [str(name).strip().rpartition("@") for name in names if str(name).strip()]
    if not pairs:
        raise EFCError("--datasets: at least one is needed")
    return [(left, right) if at else (right, "none") for left, at, right in pairs]


def show_plan(session: Session, plan: Plan) -> None:
    """What is stored, what will run, and for how long."""
    left = {run.id for pack in plan.packs for run in pack.runs}
    table = Table("dataset", "scenario", "method", "head", "stored", "to run", box=None, padding=(0, 2, 0, 0))
    for row in plan.rows:
        s, n = row[0].settings, sum(run.id in left for run in row)
        shown = (s["dataset"], s["scenario"], s["method"], s["head"])
        table.add_row(*shown, str(len(row) - n), str(n) if n else "")
    session.console.print(table)
    if not plan.packs:
        session.tell("Nothing to run: all results are stored.")
        return
    seconds = estimates(plan.packs)
    slots = min(session.means.workers or 1, len(plan.packs)) if session.means.engine == "local" else 1
    rough = max(max(seconds), sum(seconds) / slots)
    runs = sum(len(pack.runs) for pack in plan.packs)
    session.tell(f"{runs} runs in {len(plan.packs)} packs to train, about {duration(rough)}")


def sweep_command(
    method: Annotated[
        str,
        typer.Option(help="One or several methods, or your own as module:Class.", autocompletion=several_of(LEARNERS)),
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
    choose("--sampler", sampler, SAMPLERS)
    choose("--packer", packer, PACKERS)
    for name, value in (("--trials", trials), ("--seeds", seeds), ("--final-seeds", final_seeds)):
        if value < 1:
            raise EFCError(f"{name}: must be at least 1, got {value}")
    flags = {
        "methods": method, "scenario": scenario, "dataset": dataset, "encoder": encoder, "head": head,
        "epochs": epochs, "hidden": hidden, "device": device, "data_dir": data_dir, "validation": 0.25,
    }  # fmt: skip
    given = {key: value for key, value in flags.items() if value is not None}
    together = make_config(given, *(parse_set(text) for text in set_ or []), shipped=False)
    spaces = [space_of(find_learner(row.method), row.head, parse_axes(axes or [])) for row in together.rows]
    at_most = None if packer == "axis" else 1
    means = Means(engine or "local", workers or 1, ray_address, checkpoint_minutes, at_most, log or ())
    file = preset or out / f"{dataset.replace(':', '-').replace('/', '-')}.yaml"
    how = f"{sampler}, {seeds} seeds from {FIRST_SEED} on, a quarter of the training data held out"
    if finalists:
        how += f"; the best {finalists} again on {final_seeds} further seeds"
    with session_in(out, means) as session:
        for row, space in zip(together.rows, spaces, strict=True):
            base = replace(together, rows=(row,))
            tried = ranked(_search(session, base, space, trials, seeds, sampler, storage))
            if finalists:
                further = range(FIRST_SEED + seeds, FIRST_SEED + seeds + final_seeds)
                again = partial(_score, session, base, further, epochs=base.epochs)
                tried = run_off(tried, finalists, again, (seeds, final_seeds))
            existing = file.read_text(encoding="utf-8") if file.exists() else ""
            write_atomically(file, preset_text(existing, base, tried, command_line(), how, space, save_as))
            _show_search(session, base, space, tried, file)


def _show_search(session: Session, base: RunConfig, space: Space, tried: Tried, file: Path) -> None:
    """The five best settings, and whether the best lies where the search ended."""
    row = base.rows[0]
    table = Table("validation %", "setting", title=f"{row.method}, {row.head} head, {row.scenario}-IL")
    for score, setting in tried[:5]:
        table.add_row(f"{score:.2f}", ", ".join(f"{key}={_short(value)}" for key, value in setting.items()))
    make_console().print(table)
    for name in on_border(space, tried[0][1]):
        session.tell(
            f"{name}: the best value lies on the border of the search ({space[name][0]:g} to {space[name][1]:g})"
        )
    session.tell(f"{len(tried)} settings tried; the best is in {file}")


def _score(
    session: Session, base: RunConfig, seeds: Sequence[int], settings: list[Setting], epochs: int
) -> list[float]:
    """Mean validation accuracy of every setting over the seeds."""
    plan = session.plan([trial_config(base, settings, len(seeds), epochs)], seeds=seeds)
    report = session.compute(plan)
    if report.stopped or report.failures:
        conclude(session, plan if report.stopped else Plan([]), report, json=False)
    found = [[report.results[run.id]["metrics"]["accuracy"] for run in runs] for runs in plan.rows]
    return [sum(values) / len(values) for values in found]


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _search(
    session: Session, base: RunConfig, space: Space, trials: int, seeds: int, sampler: str, storage: str | None
) -> Tried:
    row = base.rows[0]

    def score(settings: list[Setting], epochs: int) -> list[float]:
        return _score(session, base, range(FIRST_SEED, FIRST_SEED + seeds), settings, epochs)

    if sampler != "optuna":
        return search(sampler, space, trials, base.epochs, score)
    from efc.search.optuna_sampler import optuna_search

    name = digest([row.method, row.head, row.scenario, base.digest(), seeds])
    url = storage or f"sqlite:///{(session.folder / 'efc.sqlite').resolve()}"
    return optuna_search(space, trials, base.epochs, score, url, f"{row.method}-{name}")
