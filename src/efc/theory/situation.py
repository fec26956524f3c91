"""The situation the theory speaks of: task A has been learned, task B begins, one head for all classes.

Every experiment starts from the same ``theta_A*`` (one per seed), sees the same samples of task A through the same
Fisher, and learns the same task B.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from efc.classifiers.file_format import SUM, checksum
from efc.core.activations import Activation, activation
from efc.core.axis import PerRun
from efc.core.fisher import diagonal_fisher
from efc.core.network import Layout
from efc.core.preservation import strengths
from efc.core.task import TaskData
from efc.errors import EFCError
from efc.files import write_atomically
from efc.learners import EFCPaperOptions, find_learner
from efc.learners.state import Generators
from efc.streams import Stream, split
from efc.streams import load as load_data
from efc.streams.split import Part
from efc.training.batches import batches as epoch_batches
from efc.training.loop import few_threads

_SHIPPED = EFCPaperOptions().to_mapping()
KAPPA, LAMBDA, BETA, HEAD_BETA = (float(_SHIPPED[name]) for name in ("kappa", "lam", "beta", "head_beta"))
"""EFC as in the paper (:class:`~efc.learners.EFCPaperOptions`)."""
FOREVER = 10**9
"""Planned steps under which the learning rate stays where it is."""


@dataclass(frozen=True)
class Scale:
    """How large an examination is: the paper's net and data, or a small one that takes two minutes."""

    dataset: str = "mnist"
    hidden: tuple[int, ...] = (64, 64)
    seeds: int = 5
    most_seeds: int = 20
    """As far as seeds are added where a comparison is not decided (experiment `forgetting`)."""
    epochs: int = 5
    """Of task A."""
    lr_A: float = 1e-3
    batch_size: int = 128
    lr: float = 1e-4
    """Of back-propagation on task B; the other methods are aligned with it."""
    fisher_samples: int = 1000
    """Of task A: the Fisher, and whatever else is asked of task A's training data."""
    probes: int = 100
    """Samples of task B that are looked at one by one."""
    test_samples: int = 2000
    """Per task, for losses and accuracies along the way."""
    quick: bool = False

    def to_mapping(self) -> dict[str, Any]:
        return asdict(self) | {"hidden": list(self.hidden)}


QUICK = Scale(
    dataset="digits", hidden=(16, 16), seeds=3, most_seeds=3, epochs=60, batch_size=32, lr=1e-3, lr_A=3e-3,
    fisher_samples=300, probes=30, test_samples=200, quick=True,
)  # fmt: skip


@dataclass
class Situation:
    """A network that has learned task A, and the data of both tasks."""

    scale: Scale
    stream: Stream
    layout: Layout
    seeds: list[int]
    theta_A: Tensor
    """(R, P): the parameters after task A, one row per seed."""
    device: torch.device
    activation: str = "relu"
    _cache: dict[str, Tensor] = field(default_factory=dict, repr=False)

    @property
    def sigma(self) -> Activation:
        return activation(self.activation)

    @property
    def classes_A(self) -> slice:
        return self.stream.tasks[0].outputs

    @property
    def classes_B(self) -> slice:
        return self.stream.tasks[1].outputs

    @property
    def classes(self) -> slice:
        """All outputs: what the head is asked about while task B is learned."""
        return slice(0, self.stream.n_outputs)

    @property
    def runs(self) -> int:
        return len(self.seeds)

    @property
    def A(self) -> Part:
        """The samples of task A that the Fisher is taken over."""
        return some(self.stream.tasks[0].parts["train"], self.scale.fisher_samples)

    @property
    def B(self) -> Part:
        return self.stream.tasks[1].parts["train"]

    @property
    def probes(self) -> Part:
        """A few samples of task B, to be looked at one by one."""
        return some(self.B, self.scale.probes)

    def held_out(self, task: int, part: str = "test") -> Part:
        return some(self.stream.tasks[task].parts[part], self.scale.test_samples)

    def task(self, index: int, steps: int = FOREVER) -> TaskData:
        """Task A (0) as far as the Fisher sees it, or all of task B (1)."""
        if index == 1:
            return TaskData(self.B.x, self.B.y, self.classes, self.classes_B, steps)
        return TaskData(self.A.x, self.A.y, self.classes_A, self.classes_A, steps)

    def diagonal(self) -> Tensor:
        """``D_A`` (R, P), the diagonal of the Fisher at ``theta_A*``."""
        if "diagonal" not in self._cache:
            y = one_hot(self.A.y, self.classes_A, self.theta_A)
            batch = (self.A.x.expand(self.runs, -1, -1), y.expand(self.runs, -1, -1))
            self._cache["diagonal"] = diagonal_fisher(self.layout, self.theta_A, self.sigma, [batch], self.classes_A)
        return self._cache["diagonal"]

    def pull(self, run: int, beta: PerRun, like: Tensor, head_beta: float = HEAD_BETA, floor: float = 0.0) -> Tensor:
        """(K, P): ``beta D_A``, the head's with a factor of its own, for K strengths: what ``theta - theta_A*`` is
        multiplied by in the preservation signal.

        ``floor`` times the mean importance is given to every weight on top: task A's Fisher is zero for the rows of the
        head that belong to task B's classes, and wherever task A is silent.
        """
        each = torch.as_tensor(beta, dtype=like.dtype, device=like.device).reshape(-1)
        F = self.diagonal()[run].to(like)
        return strengths(self.layout, each, torch.full_like(each, head_beta), "none", None) * (F + floor * F.mean())


def some(part: Part, n: int) -> Part:
    """At most ``n`` samples, the same ones every time, in a random order."""
    if n >= len(part.y):
        return part
    chosen = torch.randperm(len(part.y), generator=torch.Generator().manual_seed(20260204))[:n].to(part.y.device)
    return Part(part.x[chosen], part.y[chosen])


def one_hot(y: Tensor, classes: slice, like: Tensor) -> Tensor:
    """(..., C) one-hot targets over ``classes``."""
    return (y.unsqueeze(-1) == torch.arange(classes.start, classes.stop, device=y.device)).to(like.dtype)


def batches(n: int, size: int, steps: int, seeds: Sequence[int], device: torch.device | str = "cpu") -> list[Tensor]:
    """Index batches (R, B), all of one size, epoch after epoch, every run in its own order; the same for every
    method."""
    generators = Generators(seeds, purpose=17).each
    found: list[Tensor] = []
    while len(found) < steps:
        epoch = epoch_batches(n, size, generators, device)
        found += [batch for batch in epoch if batch.shape[1] == min(size, n)]
    return found[:steps]


def learn_task_A(scale: Scale, stream: Stream, seeds: Sequence[int], device: torch.device) -> Tensor:
    """``theta_A*`` (R, P): back-propagation with Adam on task A alone, the head asked about task A's classes."""
    cls = find_learner("sgd")
    options = cls.options_type.from_mapping({"lr": scale.lr_A, "inputs": "raw"})
    learner = cls((stream.n_features, *scale.hidden, stream.n_outputs), seeds, options, head="random", device=device)
    n = len(stream.tasks[0].parts["train"].y)
    plan = batches(n, scale.batch_size, scale.epochs * (n // scale.batch_size), seeds, device)
    task = stream.data(0, len(plan))
    with few_threads(learner, scale.batch_size):
        learner.begin_task(task)
        for index in plan:
            learner.step(task.x[index], task.y[index])
    return learner.theta.clone()


def _learned(file: Path, shape: tuple[int, int]) -> Tensor:
    """``theta_A*`` as it was left in a folder."""
    try:
        content = file.read_bytes()
        theta = load(content)["theta_A"]
        about = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")]).get("__metadata__") or {}
        if about.get(SUM, "") not in ("", checksum("", {"theta_A": theta})):  # an early version wrote none
            raise ValueError("its checksum is wrong")
        if theta.shape == shape and bool(torch.isfinite(theta).all()):
            return theta
        told = f"numbers of shape {tuple(theta.shape)}, where {shape} finite ones should be"
    except Exception as problem:  # whatever a damaged file makes of the reader
        told = " ".join(f"{type(problem).__name__}: {problem}".split())
    raise EFCError(f"--out: {file} is damaged ({told}); take it away, and task A is learned again")


def prepare(scale: Scale, device: torch.device | str = "cpu", folder: Path | None = None) -> Situation:
    """Load the data and learn task A, or take ``theta_A*`` from ``folder`` where it has been learned before."""
    device = torch.device(device)
    data = load_data(scale.dataset)
    half = len(data.class_names) // 2
    if half < 2:
        raise EFCError(f"--dataset: {scale.dataset} has {len(data.class_names)} classes, at least four are needed")
    stream = split(data, tasks=2, classes_per_task=half, scenario="class").to(device)
    seeds = list(range(scale.seeds))
    layout = Layout((stream.n_features, *scale.hidden, stream.n_outputs))
    file = None if folder is None else folder / "theta_A.safetensors"
    if file is not None and file.exists():
        theta = _learned(file, (len(seeds), layout.n_parameters)).to(device)
    else:
        theta = learn_task_A(scale, stream, seeds, device)
        if file is not None:
            state = {"theta_A": theta.cpu().contiguous()}
            write_atomically(file, save(state, metadata={SUM: checksum("", state)}))
    return Situation(scale, stream, layout, seeds, theta, device)


def further(situation: Situation, number: int) -> Situation:
    """The same for as many other seeds, the next ones: task A is learned anew."""
    s, first = situation, situation.seeds[-1] + 1
    seeds = list(range(first, first + number))
    theta = learn_task_A(s.scale, s.stream, seeds, s.device)
    return replace(s, seeds=seeds, theta_A=theta, _cache={})
