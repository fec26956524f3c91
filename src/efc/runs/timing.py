"""How long packs will take: a few steps of the dearest kinds are timed, the others are reckoned from these."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from efc.data import Dataset
from efc.learners import find_learner
from efc.runs.plan import Pack
from efc.runs.worker import dataset_of, prepare
from efc.streams import Part, Stream
from efc.training.loop import Training

BUDGET = 1.0
"""Seconds that timing may take, all data sets together. One kind of pack of each is timed in any case."""
STEPS, ENOUGH = 3, 0.1
"""So many steps are timed, after one that warms up, or fewer where they take that many seconds."""
TESTED = 32
"""Samples of each task that are answered before the first step."""
RIDGE = 0.02
Kind = tuple[str, ...]
"""Method, data and widths of the network, and the choices among the method's options."""


class Work(NamedTuple):
    """What a pack has to do: ``steps`` of all its runs, whose networks have so many ``weights`` together."""

    steps: float
    weights: float

    @property
    def total(self) -> float:
        return self.steps * self.weights


def estimates(packs: Sequence[Pack], budget: float = BUDGET) -> list[float]:
    """Seconds, roughly, of every pack.

    A kind of pack is timed once: one of each method first, and the dearest first. How fast those are that had no turn
    when the ``budget`` (in seconds) was spent is reckoned from the others.
    """
    groups: dict[object, list[Pack]] = defaultdict(list)
    for pack in packs:
        groups[pack.place, pack.settings.dataset, pack.settings.encoder].append(pack)
    work: dict[str, Work] = {}
    rates: dict[Kind, float] = {}
    for left, members in zip(range(len(groups), 0, -1), reversed(groups.values()), strict=True):
        began = time.perf_counter()  # the data set planned last comes first: it is still in memory
        s = members[0].settings
        data = dataset_of(members[0].place, s.dataset, s.encoder)
        work |= {pack.id: _work(pack, data) for pack in members}
        _time(members, work, rates, began + budget / left)
        budget -= time.perf_counter() - began
    kinds = {pack.id: _kind(pack) for pack in packs}
    reckoned = _reckoned(rates, set(kinds.values()) - rates.keys())
    return [work[pack.id].total * (rates | reckoned)[kinds[pack.id]] for pack in packs]


def _kind(pack: Pack) -> Kind:
    s = pack.settings
    words = sorted(f"{key}={value}" for key, value in s.options.to_mapping().items() if isinstance(value, str))
    return (s.method, f"{s.dataset}@{s.encoder} {s.hidden}", *words)


def _work(pack: Pack, data: Dataset) -> Work:
    """What takes no steps goes over its data once, in as many pieces."""
    s, method = pack.settings, find_learner(pack.settings.method)
    outputs = s.tasks * s.classes_per_task
    samples = len(data.y_train) * (1 - s.validation) * min(1.0, outputs / len(data.class_names))
    passes = s.epochs if method.takes_steps and s.stream == "none" else 1
    again = (s.tasks + 1) / 2 if method.joint else 1
    weights = sum(a * b for a, b in pairwise((data.x_train.shape[1], *s.hidden, outputs)))
    return Work(passes * again * samples / s.batch_size, len(pack.runs) * weights)


def _time(packs: Sequence[Pack], work: Mapping[str, Work], rates: dict[Kind, float], until: float) -> None:
    """Time kinds of ``packs``, which share their data, as long as it is not ``until``: seconds a step and weight."""
    kinds: dict[Kind, list[Pack]] = defaultdict(list)
    for pack in packs:
        kinds[_kind(pack)].append(pack)
    dearest = sorted(kinds, key=lambda kind: -sum(work[pack.id].total for pack in kinds[kind]))
    first = {kind[:2]: kind for kind in reversed(dearest)}  # the dearest of each method and network
    for n, kind in enumerate(sorted(dearest, key=lambda kind: kind != first[kind[:2]])):
        if n > 0 and time.perf_counter() > until:
            return
        pack = min(kinds[kind], key=lambda pack: len(pack.runs))
        try:
            rates[kind] = _step(pack) / work[pack.id].weights
        except Exception:  # a method that fails is reported when its turn comes
            rates[kind] = 0.0


def _step(pack: Pack) -> float:
    """Seconds that a step takes, or, without steps, a pass over a batch; of the first task, with few of its samples."""
    training = prepare(pack)
    samples = STEPS * pack.settings.batch_size
    if isinstance(training, Training):
        short = _short(training.stream, samples)
        training = Training(training.learner, short, training.epochs, training.batch_size, training.part)
    marks: list[float] = []

    def boundary(word: str) -> bool:
        if word == "batch":
            marks.append(time.perf_counter())
        steps = len(marks) - 1
        slow = steps > 0 and marks[-1] - marks[0] > ENOUGH
        return word == "task" or slow or (steps >= STEPS and isinstance(training, Training))

    began = time.perf_counter()
    training.run(boundary=boundary)
    if len(marks) > 1:
        return (marks[-1] - marks[0]) / (len(marks) - 1)
    return (time.perf_counter() - began) * pack.settings.batch_size / samples


def _short(stream: Stream, samples: int) -> Stream:
    """The stream with few training samples of each task, and fewer others, from all over it."""

    def some(part: Part, n: int) -> Part:
        every = max(1, len(part.y) // n)
        return Part(part.x[::every], part.y[::every])

    parts = [
        {name: some(p, samples if name == "train" else TESTED) for name, p in t.parts.items()} for t in stream.tasks
    ]
    return replace(stream, tasks=tuple(replace(t, parts=p) for t, p in zip(stream.tasks, parts, strict=True)))


def _reckoned(rates: Mapping[Kind, float], others: set[Kind]) -> dict[Kind, float]:
    """How fast ``others`` are: every part of a kind has a factor of its own, by ridge regression on logarithms."""
    timed = [kind for kind, rate in rates.items() if rate > 0]
    if not timed or not others:
        return dict.fromkeys(others, 0.0)
    parts = sorted({part for kind in timed for part in kind})
    a = np.array([[part in kind for part in parts] for kind in timed], float)
    b = np.array([[part in kind for part in parts] for kind in others], float)
    y = np.log([rates[kind] for kind in timed])
    fitted = a.T @ np.linalg.solve(a @ a.T + RIDGE * np.eye(len(timed)), y - y.mean())
    return dict(zip(others, np.exp(y.mean() + b @ fitted).tolist(), strict=True))
