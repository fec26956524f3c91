"""Learners on the toy stream: small enough for float64, and every method with options that let it do its work."""

from __future__ import annotations

from typing import Any

import torch

from efc.learners import (
    LEARNERS,
    ActivityEWCOptions,
    ActivityOptions,
    DEROptions,
    DERppOptions,
    EFCOptions,
    EFCPaperOptions,
    EWCOptions,
    FullFisherOptions,
    GPMOptions,
    KFACOptions,
    Learner,
    LWFOptions,
    MASOptions,
    NCLOptions,
    OnlineEWCOptions,
    Options,
    OWMOptions,
    SIOptions,
    SLDAOptions,
    TaskData,
)
from efc.training.loop import train
from support.tasks import toy_stream

SIZES = (6, 8, 7, 6)
PLAIN: dict[str, Any] = {"inputs": "raw", "drift": "trusted", "skip": "off", "readout": "regression"}
"""Nothing between the data and the equations: what a test means that works its answer out by hand."""
OPTIONS: dict[str, Any] = {
    "efc": EFCOptions(**PLAIN, lr=1e-2, pull=0.05, beta=1.0, head_beta=2.0),
    "efc-paper": EFCPaperOptions(**PLAIN, lr=1e-2, beta=1.0, head_beta=2.0),
    "activity": ActivityOptions(**PLAIN, lr=1e-2, pull=0.05),
    "activity_ewc": ActivityEWCOptions(**PLAIN, lr=1e-2, pull=0.05, strength=10.0),
    "ewc": EWCOptions(**PLAIN, lr=1e-2, strength=10.0),
    "online_ewc": OnlineEWCOptions(**PLAIN, lr=1e-2, strength=10.0),
    "si": SIOptions(**PLAIN, lr=1e-2, strength=10.0),
    "mas": MASOptions(**PLAIN, lr=1e-2, strength=1.0),
    "kfac": KFACOptions(**PLAIN, lr=1e-2, strength=10.0),
    "ncl": NCLOptions(**PLAIN, lr=1e-2, prior=1.0),
    "owm": OWMOptions(**PLAIN, lr=1e-2, alpha=0.1, average=4),
    "gpm": GPMOptions(**PLAIN, lr=1e-2, slack=0.05),
    "lwf": LWFOptions(**PLAIN, lr=1e-2, distil=2.0),
    "full_fisher": FullFisherOptions(**PLAIN, lr=1e-2, strength=10.0),
    "der": DEROptions(**PLAIN, lr=1e-2, buffer=10),
    "derpp": DERppOptions(**PLAIN, lr=1e-2, buffer=10, replay=5),
    "analytic": LEARNERS["analytic"].options_type(**PLAIN, ridge=1e-3),
    "slda": SLDAOptions(**PLAIN, shrinkage=1e-2),
    "sgd": Options(**PLAIN, lr=1e-2),
    "frozen": Options(**PLAIN, lr=1e-2),
    "joint": Options(**PLAIN, lr=1e-2),
}
TRAINED = [name for name in LEARNERS if LEARNERS[name].takes_steps]
"""Methods that learn by steps."""


def with_options(name: str, **changes: Any) -> Any:
    """A method's options for the toy stream, some changed."""
    base = {key: value for key, value in OPTIONS[name].to_mapping().items() if key != "variant"}
    return type(OPTIONS[name])(**(base | changes))


def make(name: str, seeds: Any = (0, 1), head: str | None = None, options: Any = None, **kwargs: Any) -> Learner:
    chosen = OPTIONS[name] if options is None else options
    given = head or ("least_squares" if name in TRAINED else None)
    return LEARNERS[name](SIZES, list(seeds), chosen, head=given, **({"dtype": torch.float64} | kwargs))


def fit(learner: Learner, scenario: str = "class", epochs: int = 2) -> Learner:
    train(learner, toy_stream(scenario, dtype=learner.theta.dtype), epochs=epochs, batch_size=8)
    return learner


def train_on(learner: Learner, task: TaskData, steps: int, first: int = 0, begin: bool = True) -> None:
    """Some steps on batches of eight that depend on nothing but the step's number."""
    if begin:
        learner.begin_task(task)
    for k in range(first, steps):
        index = torch.randperm(len(task.y), generator=torch.Generator().manual_seed(k))[:8]
        learner.step(task.x[index].expand(learner.runs, -1, -1), task.y[index].expand(learner.runs, -1))
