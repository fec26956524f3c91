"""How long packs will take: a few of their steps are timed."""

from __future__ import annotations

import time
from collections.abc import Sequence

from efc.runs.plan import Pack
from efc.runs.worker import prepare


def estimates(packs: Sequence[Pack]) -> list[float]:
    """Seconds, roughly, of every pack; a kind of pack (data, method, the choices among its options) is timed once."""
    known: dict[tuple[str, ...], float] = {}
    found = []
    for pack in packs:
        s = pack.settings
        words = sorted(f"{key}={value}" for key, value in s.options.to_mapping().items() if isinstance(value, str))
        kind = (s.dataset, s.encoder, s.method, str(len(pack.runs)), *words)
        if kind not in known:
            known[kind] = _probe(pack)
        found.append(known[kind])
    return found


def _probe(pack: Pack) -> float:
    """Time some of the first task's steps; the others are counted, not taken."""
    training = prepare(pack)
    marks = [time.perf_counter()]

    def boundary(word: str) -> bool:
        if word == "batch":
            marks.append(time.perf_counter())
        return word == "task" or (len(marks) > 5 and marks[-1] - marks[1] > 0.1)

    try:
        training.run(boundary=boundary)
    except Exception:  # a method that fails is reported when its turn comes
        return 0.0
    sizes = [len(task.parts["train"].y) for task in training.stream.tasks]
    if len(marks) < 3:  # a closed form: no steps to count
        return (time.perf_counter() - marks[0]) * len(sizes)
    if training.learner.joint:
        sizes = [sum(sizes[: k + 1]) for k in range(len(sizes))]
    steps = training.epochs * sum(-(-n // training.batch_size) for n in sizes)
    return steps * (marks[-1] - marks[1]) / (len(marks) - 2)
