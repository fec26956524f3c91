"""What each departure from the paper's protocol, or from the authors' code, changes: one at a time, paired by seed.

    python benchmarks/departures.py --data-dir DATA --device cuda --out results/departures

The base is the paper's method by our own protocol (its line of `efc bench paper`): Split-MNIST, Class-IL, least-squares
head, options from the preset. Every row changes one thing, named as the option or setting that does it. Writes
`departures.json` into the folder; what is stored there is not computed again.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from efc.cli.common import command_line, session_in
from efc.files import Json, to_json, write_atomically
from efc.learners import EFCPaper, find_learner
from efc.presets import find_preset
from efc.runs.config import RunConfig, make_config
from efc.runs.results import ResultRow, Summary
from efc.runs.session import Means, Session
from efc.runs.trust import Trust

Given = Mapping[str, Json]
DATASET, HEAD = "mnist", "least_squares"
TRAINING: Given = {"tasks": 5, "classes_per_task": 2, "hidden": [100, 100], "epochs": 10, "batch_size": 256}
THEIRS: Given = {"lr": 3e-5, "beta": 1.0, "lam": 0.01}
"""The authors' rate, strength and distance of the target for Class-IL on MNIST."""
ITERATION: Given = {"measure": "absolute", "tol": 1e-4, "max_steps": 500, "enough": 0.99}
PIXELS: Given = {"inputs": "scaled", "input_mean": 0.1307, "input_deviation": 0.3081}
OURS: Given = {"schedule": "cosine", "inputs": "raw", "initial": "he", "first_head": "set"}
"""What of `reference` is a matter of protocol, as we do it."""


class PlusGamma(EFCPaper):
    """The other sign of gamma, which the paper prints beside ours."""

    name = "efc-plus"
    recordable = True

    def _set_strengths(self) -> None:
        super()._set_strengths()
        self.strengths = -self.strengths


@dataclass(frozen=True)
class Change:
    """One thing done differently: options of the method, settings of the training, or another method or head."""

    name: str
    options: Given = field(default_factory=dict)
    settings: Given = field(default_factory=dict)
    method: str = "efc-paper"
    head: str = HEAD
    base: str = ""
    """The row it is compared with; empty: the base, unless it is one itself."""


SGD, BUFFER, SI = "SGD: Adam", "DER++: 200 samples", "SI: as searched"
BASES = ("base", SGD, BUFFER, SI)
"""Always computed, whatever is asked for."""
CHANGES = [
    Change("base"),
    Change("output=linear", {"output": "linear"}),
    Change("output=linear_ce", {"output": "linear_ce"}),
    Change("gamma with the sign plus", method="departures:PlusGamma"),
    Change("kappa=0.5", {"kappa": 0.5}),
    Change("kappa=2", {"kappa": 2.0, "k_p": 2.0, "solver_options": {"max_steps": 16}}),
    Change("kappa=10", {"kappa": 10.0, "solver_options": {"max_steps": 16}}),
    Change("solver=steady_state", {"solver": "steady_state"}),
    Change("lam=0.1", {"lam": 0.1}),
    Change("normalise=neuron beta=1", {"normalise": "neuron", "beta": 1.0, "head_beta": 1.0}),
    Change("lr=3e-5 beta=1 lam=0.01 normalise=neuron", {**THEIRS, "normalise": "neuron", "head_beta": 1.0}),
    Change("head=random", head="random"),
    Change("first_head=drawn", {"first_head": "drawn"}),
    Change("head_rule=frozen", {"head_rule": "frozen"}),
    Change("head_rule=rates", {"head_rule": "rates"}),
    Change("form=bounded", {"form": "bounded"}),
    Change("on_failure=zero", {"on_failure": "zero"}),
    Change("solver=fixed_point", {"solver": "fixed_point", "solver_options": ITERATION}),
    Change("epochs=20", settings={"epochs": 20}),
    Change("schedule=constant", {"schedule": "constant"}),
    Change("initial=uniform_biases", {"initial": "uniform_biases"}),
    Change("inputs=scaled", PIXELS),
    Change("inputs=standardised", {"inputs": "standardised"}),
    Change("validation=0", settings={"validation": 0.0}),
    Change("hidden=1000,1000", settings={"hidden": [1000, 1000]}),
    Change("activation=softplus", settings={"activation": "softplus"}),
    Change(SGD, method="sgd"),
    Change("SGD: optimiser=sgd momentum=0", {"lr": 3e-3, "optimiser": "sgd", "momentum": 0.0}, method="sgd", base=SGD),
    Change("SGD: optimiser=sgd momentum=0.9", {"lr": 3e-3, "optimiser": "sgd"}, method="sgd", base=SGD),
    Change(BUFFER, method="derpp"),
    Change("DER++: buffer=500", {"buffer": 500}, method="derpp", base=BUFFER),
    Change(SI, method="si"),
    Change("SI: strength=0", {"strength": 0.0}, method="si", base=SI),
    Change("variant=reference, their settings", {"variant": "reference", **THEIRS}, {"epochs": 20, "validation": 0.0}),
    Change("variant=reference, their settings and widths", {"variant": "reference", **THEIRS},
           {"epochs": 20, "validation": 0.0, "hidden": [1000, 1000]}),
    Change("variant=reference, their settings, lr=1e-4", {"variant": "reference", **THEIRS, "lr": 1e-4},
           {"epochs": 20, "validation": 0.0}),
    Change("variant=reference, our protocol", {"variant": "reference", **THEIRS, **OURS}),
]  # fmt: skip


def config_of(change: Change, settings: Mapping[str, object]) -> RunConfig:
    """The base with the change."""
    learner = find_learner(change.method)
    preset = find_preset(DATASET, "class", "efc-paper" if ":" in change.method else change.method, HEAD)
    if change.options.get("variant"):
        preset = {}
    row = {
        "method": change.method, "head": change.head, "scenario": "class",
        "options": learner.options_type.layered(preset, change.options),
    }  # fmt: skip
    layers = ({"dataset": DATASET, "encoder": "none"}, TRAINING, change.settings, {"rows": [row]}, settings)
    return make_config(*layers, trust=Trust.of({"methods": change.method}))


def summary(rows: Mapping[str, ResultRow], changes: Sequence[Change]) -> list[dict[str, Json]]:
    """Every row with its difference from the one it is compared with, seed by seed."""
    found: list[dict[str, Json]] = []
    for change in changes:
        row, base = rows[change.name], rows[change.base or "base"]
        apart = Summary.of(np.array(row.accuracy.per_seed) - np.array(base.accuracy.per_seed))
        found.append({
            "name": change.name, "options": dict(change.options), "settings": dict(change.settings),
            "method": change.method, "head": change.head, "base": change.base or "base",
            "accuracy": told(row.accuracy), "sample_accuracy": told(row.measures["sample_accuracy"]),
            "difference": told(apart), "unsettled": None if row.unsettled is None else row.unsettled.mean,
            "diverged": row.diverged, "seconds": row.seconds,
        })  # fmt: skip
    return found


def told(values: Summary) -> dict[str, Json]:
    return {"mean": values.mean, "std": values.std, "per_seed": values.per_seed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/departures"))
    parser.add_argument("--data-dir")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", default="", help="names of rows, with semicolons; the bases are always computed")
    parser.add_argument("--set", action="append", default=[], help="KEY=NUMBER: a setting for all rows, for a trial")
    given = parser.parse_args()
    only = [part.strip() for part in given.only.split(";") if part.strip()]
    changes = [c for c in CHANGES if not only or c.name in BASES or any(part in c.name for part in only)]
    settings: dict[str, object] = {"seeds": given.seeds, "device": given.device, "data_dir": given.data_dir}
    settings |= {key: float(value) if "." in value else int(value) for key, value in (s.split("=") for s in given.set)}
    with session_in(given.out, Means(workers=given.workers), None) as session:
        session.plan([config_of(change, settings) for change in changes])
        session.compute()
        write(session, changes, given.out)


def write(session: Session, changes: Sequence[Change], folder: Path) -> None:
    """What is there so far."""
    pairs = zip(changes, session.rows, strict=True)
    rows = {change.name: session.row(runs) for change, runs in pairs if session.complete(runs)}
    there = [change for change in changes if change.name in rows and (change.base or "base") in rows]
    environment = rows["base"].environment if "base" in rows else None
    document = {"rows": summary(rows, there), "environment": environment, "command": command_line()}
    write_atomically(folder / "departures.json", to_json(document))
    for pack, message in session.failures:
        session.tell(f"Failed: {pack.label}: {message}")


if __name__ == "__main__":
    main()
