"""`efc bench`: many runs, one store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from efc.cli.bench_paper import Wanted, compute_table, plan_table
from efc.cli.bench_protocol import compute_protocol, plan_protocol
from efc.cli.common import (
    DATASETS,
    CheckpointMinutes,
    Device,
    Diagnose,
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
from efc.cli.completion import several_of
from efc.errors import EFCError, choose
from efc.paper.lines import BOTH, USUAL
from efc.paper.protocol import PROTOCOLS, SOURCES, WIDTHS
from efc.report.terminal import duration, make_console
from efc.runs.config import make_config, parse_set
from efc.runs.session import Means, Session, usual_workers
from efc.runs.settings_file import load_yaml
from efc.runs.timing import estimates
from efc.runs.trust import Trust
from efc.streams import SCENARIOS


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
    hidden: Annotated[
        str | None, typer.Option(help="Widths of the hidden layers. Default: 500, or the preset's.")
    ] = None,
    diagnose: Diagnose = False,
    config: Annotated[Path | None, typer.Option(help="YAML file with the same keys, and `datasets`.")] = None,
    preset: Annotated[Path | None, typer.Option(help="Options found by efc sweep.")] = None,
    set_: Sets = None,
    trust: Trusted = False,
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
    protocol: Annotated[
        str | None,
        typer.Option(help="For paper: fair, our own (default), or paper: the paper's own settings beside its numbers."),
    ] = None,
    widths: Annotated[
        str | None, typer.Option(help="For --protocol paper: text, code or text,code (default): whose networks.")
    ] = None,
    plan_only: Annotated[bool, typer.Option("--plan", help="Show the plan and stop.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the results as one JSON document on stdout.")] = False,
) -> None:
    """Methods x data sets x scenarios x seeds: what is stored is not computed again.

    For instance: efc bench --datasets digits,mnist --methods all --seeds 5
    """
    if what is not None:
        choose("bench", what, ("paper",))
        choose("--protocol", protocol or "fair", PROTOCOLS)
        clash = {"--head": head, "--epochs": epochs, "--hidden": hidden, "--config": config, "--preset": preset,
                 "--set": set_, "--methods": None if protocol == "paper" else methods}  # fmt: skip
        for name, value in clash.items():
            if value is not None:
                raise EFCError(f"{name}: the paper's table is fixed; leave it out")
        given = {"seeds": seeds, "device": device, "data_dir": data_dir, "diagnose": diagnose or None}
        means = Means(
            engine or "local",
            usual_workers(device or "auto") if workers is None else workers,
            ray_address,
            checkpoint_minutes,
            pack,
        )
        if widths is not None and protocol != "paper":
            raise EFCError("--widths: belongs to the paper's protocol; add --protocol paper, or leave it out")
        usual = WIDTHS if protocol == "paper" else USUAL
        table = Wanted(
            (datasets or ",".join(usual)).split(","), scenarios.split(",") if scenarios else BOTH, features or (),
            lines or "", {key: value for key, value in given.items() if value is not None},
            (widths or ",".join(SOURCES)).split(","), methods.split(",") if methods else (),
        )  # fmt: skip
        with session_in(out, means, log, plan_only) as session:
            if protocol == "paper":
                planned = plan_protocol(session, table, plan_only)
                if session.rows:
                    show_plan(session)
                if not plan_only:
                    compute_protocol(session, planned, out, json)
                return
            plan_table(session, table, plan_only)
            if session.rows:
                show_plan(session)
            if not plan_only:
                compute_table(session, table, out, json)
        return
    if protocol is not None:
        raise EFCError("--protocol: belongs to the paper's table, `efc bench paper`; set options with --set here")
    if widths is not None:
        raise EFCError("--widths: belongs to the paper's protocol, `efc bench paper --protocol paper`; here --hidden")
    if lines is not None:
        raise EFCError("--lines: belongs to the paper's table, `efc bench paper`; choose --methods and --head here")
    flags: dict[str, object] = {
        "methods": methods, "scenario": scenarios, "head": head, "seeds": seeds, "epochs": epochs, "hidden": hidden,
        "device": device, "data_dir": data_dir, "preset_file": None if preset is None else str(preset),
        "diagnose": diagnose or None,
    }  # fmt: skip
    file = {} if config is None else load_yaml(config)
    named = file.pop("datasets", None) if datasets is None else datasets
    if "scenarios" in file:
        file["scenario"] = file.pop("scenarios")
    typed = [{key: value for key, value in flags.items() if value is not None}, *map(parse_set, set_ or [])]
    encoders = [] if datasets is None else [{"encoder": encoder} for _, encoder in _datasets(datasets)]
    trusted = Trust.of(*typed, *encoders, files=trust)
    configs = [
        make_config({"dataset": name, "encoder": encoder}, file, *typed, trust=trusted)
        for name, encoder in _datasets(named)
    ]
    workers = usual_workers(configs[0].device) if workers is None else workers
    means = Means(engine or "local", workers, ray_address, checkpoint_minutes, pack)
    with session_in(out, means, log, plan_only) as session:
        session.plan(configs)
        show_plan(session)
        if not plan_only:
            session.compute()
            conclude(session, out, json)


def _datasets(named: object) -> list[tuple[str, str]]:
    """(name, encoder) pairs of ``digits,cifar10@resnet18``, or of a list."""
    several = named if isinstance(named, Sequence) and named else ["digits"]
    names = named.split(",") if isinstance(named, str) else list(several)
    pairs = [str(name).strip().rpartition("@") for name in names if str(name).strip()]
    if not pairs:
        raise EFCError("--datasets: at least one is needed")
    return [(left, right) if at else (right, "none") for left, at, right in pairs]


def show_plan(session: Session) -> None:
    """What is stored, what will run, and for how long."""
    left = {run.id for pack in session.packs for run in pack.runs}
    table = Table("dataset", "scenario", "method", "head", "stored", "to run", box=None, padding=(0, 2, 0, 0))
    counts: dict[tuple[str, ...], list[bool]] = {}  # rows that differ in their options alone are one line
    for row in session.rows:
        s = row[0].settings
        counts.setdefault((s.dataset, s.scenario, s.method, s.head), []).extend(run.id in left for run in row)
    for words, missing in counts.items():
        table.add_row(*words, str(len(missing) - sum(missing)), str(sum(missing) or ""))
    make_console(stderr=True).print(table)
    if not session.packs:
        session.tell("Nothing to run: all results are stored.")
        return
    seconds = estimates(session.packs)
    slots = min(session.means.workers or 1, len(session.packs)) if session.means.engine == "local" else 1
    rough = max(max(seconds), sum(seconds) / slots)
    runs = sum(len(pack.runs) for pack in session.packs)
    session.tell(f"{runs} runs in {len(session.packs)} packs to train, about {duration(rough)}")
