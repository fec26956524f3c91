"""`efc theory`: the paper's claims, measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from efc.cli.common import command_line
from efc.cli.completion import one_of
from efc.data.catalogue import DATASETS, check_name
from efc.environment import pick_device
from efc.errors import choose
from efc.files import to_json, write_atomically
from efc.report.style import new_figure
from efc.report.terminal import make_console

STYLES = {"holds": "green", "holds in part": "yellow", "does not hold": "red", "not decided": "magenta"}


def _offered(incomplete: str) -> list[str]:
    from efc.theory.experiments import EXPERIMENTS

    return [name for name in EXPERIMENTS if name.startswith(incomplete)]


def theory_command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Experiments; none: list them.", autocompletion=_offered),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="All experiments.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A small net on the embedded digits.")] = False,
    dataset: Annotated[
        str | None, typer.Option(help="mnist (default), or any other data set.", autocompletion=one_of(DATASETS))
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, max=1000, help="Seeds 0, 1, ... (5; --quick: 3).")] = None,
    most_seeds: Annotated[
        int | None, typer.Option(min=1, max=1000, help="forgetting adds seeds up to so many (20; --quick: none).")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder. Default: results/theory-DATASET.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Measure again what --out holds already.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "cpu",
    json: Annotated[bool, typer.Option("--json", help="Print the findings as one JSON document.")] = False,
) -> None:
    """Put the paper's theory to the test: each claim, what was measured, and how far it holds.

    For instance: efc theory --all --quick

    Every experiment leaves a JSON file and a figure (PNG, SVG). Interrupted, it goes on with the experiment it was at
    when the same command is given again.
    """
    from efc.theory.experiments import EXPERIMENTS
    from efc.theory.run import examine, markdown, together
    from efc.theory.situation import QUICK, Scale

    if not names and not all_:
        _list(EXPERIMENTS)
        return
    chosen = [EXPERIMENTS[choose("NAME", name, EXPERIMENTS)] for name in names or []]
    scale = QUICK if quick else Scale()
    scale = replace(
        scale, dataset=dataset or scale.dataset, seeds=seeds or scale.seeds, most_seeds=most_seeds or scale.most_seeds
    )
    check_name(scale.dataset)
    chosen_device = pick_device(device)
    folder = out or Path("results") / f"theory-{scale.dataset.replace(':', '-').replace('/', '-')}"
    console = make_console(stderr=True)
    new_figure((1, 1))  # what it is drawn with must be there: said now, not after hours
    found = examine(
        chosen or list(EXPERIMENTS.values()), scale, folder, chosen_device, command_line(),
        lambda text: console.print(text, markup=False, highlight=False), overwrite,
    )  # fmt: skip
    write_atomically(folder / "theory.md", markdown(found))
    write_atomically(folder / "theory.json", together(found))
    if json:
        print(to_json(found))
    else:
        make_console().print(_table(found))
    console.print(f"Findings and figures: {folder}", markup=False, highlight=False)


def _list(experiments: dict[str, Any]) -> None:
    shown = Table("experiment", "what it examines", box=None, padding=(0, 2, 0, 0))
    for experiment in experiments.values():
        shown.add_row(experiment.name, experiment.title)
    make_console().print(shown)
    print("\nName one or several, or --all; --quick for a small net on the embedded digits.")


def _table(found: list[dict[str, Any]]) -> Table:
    shown = Table("", "claim", "measured", "verdict", box=None, padding=(0, 2, 1, 0))
    for document in found:
        for claim in document["claims"]:
            verdict = claim["verdict"]
            shown.add_row(document["experiment"], claim["statement"], claim["measured"], Text(verdict, STYLES[verdict]))
    return shown
