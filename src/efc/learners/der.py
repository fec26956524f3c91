"""Dark Experience Replay, DER and DER++ (Buzzega et al., 2020): a few old samples and what was once said of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from efc.core.axis import PerRun
from efc.core.network import backward, forward, outer_sums
from efc.core.outputs import loss_gradient
from efc.learners.inputs import Change
from efc.learners.options import Options, number
from efc.learners.sgd import SGD
from efc.learners.state import Generators, Part, Stored


class Drawn(NamedTuple):
    """Replayed samples of each run: inputs, labels, stored logits, and which outputs (R, n, K) each is asked about."""

    x: Tensor
    y: Tensor
    z: Tensor
    asked: Tensor


class Reservoir(Stored):
    """A uniform sample of everything seen, one of ``capacity`` for each run (reservoir sampling, Vitter 1985).

    Beside a sample stand its label, the logits given when it was stored (of the whole head), and the outputs
    ``[first, last)`` that were active then.

    Args:
        capacity: samples kept by each run.
        n_features: length of an input.
        n_outputs: outputs of the whole head.
        seeds: one per run, for which samples are kept and drawn.
        like: a tensor of the device and precision to keep them in.
    """

    stored = ("x", "y", "z", "first", "last", "seen")

    def __init__(self, capacity: int, n_features: int, n_outputs: int, seeds: Sequence[int], like: Tensor) -> None:
        R = len(seeds)
        self.capacity = capacity
        self.x = like.new_zeros(R, capacity, n_features)
        self.z = like.new_zeros(R, capacity, n_outputs)
        self.y = torch.zeros(R, capacity, dtype=torch.long, device=like.device)
        self.first, self.last = torch.zeros_like(self.y), torch.zeros_like(self.y)
        self.seen = torch.tensor(0)
        self.generators = Generators(seeds, purpose=3)

    def __len__(self) -> int:
        return min(int(self.seen), self.capacity)

    def follow_inputs(self, change: Change) -> None:
        """Inputs are standardised in another way from now on."""
        self.x = change.inputs(self.x)

    def add(self, x: Tensor, y: Tensor, z: Tensor, active: slice) -> None:
        """Offer a batch x (R, B, d_0), y (R, B), z (R, B, K), met while ``active`` was, in this order."""
        R, B = y.shape
        count = int(self.seen) + torch.arange(B)  # samples seen before each of these
        slot = (self.generators.uniform(B) * (count + 1)).long()
        slot = torch.where(count < self.capacity, count, slot).clamp_max(self.capacity).to(y.device)
        # Two samples of a batch may want the same place: the later one gets it. Column `capacity` is the bin.
        winner = torch.full((R, self.capacity + 1), -1, device=y.device)
        winner.scatter_reduce_(1, slot, torch.arange(B, device=y.device).expand(R, B), "amax")
        winner = winner[:, : self.capacity]
        taken, source = winner >= 0, winner.clamp_min(0)
        self.x = torch.where(taken.unsqueeze(-1), _pick(x, source), self.x)
        self.y = torch.where(taken, y.gather(1, source), self.y)
        self.z = torch.where(taken.unsqueeze(-1), _pick(z, source), self.z)
        self.first = torch.where(taken, active.start, self.first)
        self.last = torch.where(taken, active.stop, self.last)
        self.seen = self.seen + B

    def draw(self, n: int, active: slice) -> Drawn:
        """``n`` of the samples kept by each run, with replacement.

        A sample is asked about the outputs ``active`` now if they contain its own (Class-IL: the new classes too), and
        about its own task's otherwise (Task-IL).
        """
        index = self.generators.integers(len(self), n).to(self.y.device)
        first, last = self.first.gather(1, index), self.last.gather(1, index)
        inside = (active.start <= first) & (last <= active.stop)
        first, last = torch.where(inside, active.start, first), torch.where(inside, active.stop, last)
        k = torch.arange(self.z.shape[-1], device=self.z.device)
        asked = (k >= first.unsqueeze(-1)) & (k < last.unsqueeze(-1))
        return Drawn(_pick(self.x, index), self.y.gather(1, index), _pick(self.z, index), asked)

    def state_dict(self) -> dict[str, Tensor]:
        return super().state_dict() | self.generators.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        super().load_state_dict(state)
        self.generators.load_state_dict(state)


def _pick(t: Tensor, index: Tensor) -> Tensor:
    """Rows ``index`` (R, n) of t (R, B, d)."""
    return t.gather(1, index.unsqueeze(-1).expand(-1, -1, t.shape[-1]))


@dataclass(frozen=True)
class DEROptions(Options):
    """``alpha`` weighs the old logits."""

    alpha: PerRun = number(0.5, inclusive=True, search=(1e-2, 1e2), doc="weight of the distance to the stored logits")
    buffer: int = number(200, per_run=False, whole=True, doc="samples kept by each run")
    replay: int = number(
        0,
        inclusive=True,
        per_run=False,
        whole=True,
        doc="samples replayed in a step, for each loss; 0: as many as are new",
    )


@dataclass(frozen=True)
class DERppOptions(DEROptions):
    """``beta`` weighs the old labels."""

    beta: PerRun = number(
        0.5,
        inclusive=True,
        search=(1e-2, 1e2),
        doc="weight of the replayed samples' cross-entropy",
        changeable=True,
    )


class DER(SGD):
    """Cross-entropy of the new batch plus ``alpha * mean (z - z_old)^2`` on replayed samples."""

    name = "der"
    streams = True
    replays_old_classes = True
    options_type = DEROptions
    options: DEROptions

    def set_up(self) -> None:
        super().set_up()
        d, K = self.layout.sizes[0], self.layout.sizes[-1]
        self.buffer = Reservoir(int(self.options.buffer), d, K, self.seeds, self.theta)
        self.alpha = self.per_run("alpha", self.options.alpha)

    def descent(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        B = x.shape[1]
        replays = self.replays(int(self.options.replay) or B) if len(self.buffer) else []
        trace = forward(self.layers, self.sigma, torch.cat([x, *(drawn.x for drawn, _ in replays)], 1))
        z, *olds = trace.z.split([B, *(drawn.x.shape[1] for drawn, _ in replays)], 1)
        new = torch.zeros_like(z)
        new[..., self.active] = loss_gradient(self.output, z[..., self.active], y) / B
        old = [gradient(drawn, z_now) / z_now.shape[1] for (drawn, gradient), z_now in zip(replays, olds, strict=True)]
        deltas = backward(self.layers, self.sigma, trace, torch.cat([new, *old], 1))
        outer_sums(deltas, trace.r, self.layout.views(self.gradient), scale=1.0)
        self.buffer.add(x, self.active.start + y.argmax(-1), z, self.active)
        return {}

    def replays(self, n: int) -> list[tuple[Drawn, Callable[[Drawn, Tensor], Tensor]]]:
        """The batches to replay, each with the gradient of its loss with respect to the logits, per sample."""
        return [(self.buffer.draw(n, self.active), self._distance)]

    def _distance(self, drawn: Drawn, z: Tensor) -> Tensor:
        """Of ``alpha`` times the mean squared distance to the stored logits, over the outputs asked about."""
        return torch.where(drawn.asked, 2 * self.alpha * (z - drawn.z), 0.0) / drawn.asked.sum(-1, keepdim=True)

    def parts(self) -> dict[str, Part]:
        return super().parts() | {"buffer": self.buffer}


class DERpp(DER):
    """DER plus ``beta`` times the cross-entropy of a second replayed batch."""

    name = "derpp"
    streams = True
    options_type = DERppOptions
    options: DERppOptions

    def set_up(self) -> None:
        super().set_up()
        self.beta = self.per_run("beta", self.options.beta)

    def replays(self, n: int) -> list[tuple[Drawn, Callable[[Drawn, Tensor], Tensor]]]:
        return [*super().replays(n), (self.buffer.draw(n, self.active), self._cross_entropy)]

    def _cross_entropy(self, drawn: Drawn, z: Tensor) -> Tensor:
        """Of ``beta`` times the cross-entropy, over the outputs asked about."""
        p = torch.softmax(z.masked_fill(~drawn.asked, float("-inf")), -1)
        return self.beta * (p - torch.nn.functional.one_hot(drawn.y, z.shape[-1]))
