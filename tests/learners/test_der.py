"""Replay: a uniform reservoir for each run, logits of the moment of storage, the right heads in Task-IL."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from torch import Tensor

from efc.learners import DER, SGD
from efc.learners.der import Reservoir
from support.learner_helpers import make, train_on, with_options
from support.tasks import toy_stream


def numbered(n: int, runs: int) -> tuple[Tensor, Tensor]:
    """Samples that carry their own number."""
    x = torch.arange(n, dtype=torch.float64).expand(runs, n).unsqueeze(-1)
    return x, torch.arange(n).expand(runs, n)


def filled(seeds: Any, n: int, capacity: int, batch: int) -> Reservoir:
    buffer = Reservoir(capacity, 1, 2, list(seeds), torch.zeros(1, dtype=torch.float64))
    x, y = numbered(n, len(seeds))
    z = torch.zeros(*y.shape, 2, dtype=torch.float64)
    for at in range(0, n, batch):
        buffer.add(x[:, at : at + batch], y[:, at : at + batch], z[:, at : at + batch], slice(0, 2))
    return buffer


@pytest.mark.parametrize("batch", [1, 7, 60])
def test_the_reservoir_is_uniform(batch: int) -> None:
    """Chi-square over 4,000 streams of 60 samples: each is kept equally often, whatever the size of the batches."""
    buffer = filled(range(4000), n=60, capacity=6, batch=batch)
    kept = torch.bincount(buffer.y.flatten(), minlength=60)
    assert int(kept.sum()) == 4000 * 6
    assert chisquare(kept.numpy()).pvalue > 1e-3
    assert all(len(set(row)) == 6 for row in buffer.y.tolist())
    assert torch.equal(buffer.x.squeeze(-1), buffer.y.double())


@given(n=st.integers(1, 40), capacity=st.integers(1, 12), batch=st.integers(1, 15), runs=st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_the_reservoir_equals_the_textbook_algorithm(n: int, capacity: int, batch: int, runs: int) -> None:
    """Sample by sample with a list, fed the same random numbers."""
    buffer = filled(range(runs), n, capacity, batch)
    assert len(buffer) == min(n, capacity)
    draws = Reservoir(capacity, 1, 2, list(range(runs)), torch.zeros(1)).generators
    u = torch.cat([draws.uniform(min(batch, n - at)) for at in range(0, n, batch)], 1)
    for run in range(runs):
        expected: list[int] = []
        for k in range(n):
            slot = int(u[run, k] * (k + 1))
            if k < capacity:
                expected.append(k)
            elif slot < capacity:
                expected[slot] = k
        assert buffer.y[run, : len(expected)].tolist() == expected


def test_buffers_of_runs_do_not_mix() -> None:
    """Two runs that see different data keep their own alone, and draw from it."""
    buffer = Reservoir(5, 1, 2, [0, 1], torch.zeros(1, dtype=torch.float64))
    x = torch.stack([torch.zeros(20, 1), torch.ones(20, 1)]).double()
    y = torch.stack([torch.zeros(20), torch.ones(20)]).long()
    buffer.add(x, y, torch.zeros(2, 20, 2, dtype=torch.float64), slice(0, 2))
    drawn = buffer.draw(50, slice(0, 2))
    for run in range(2):
        assert (drawn.x[run] == run).all()
        assert (drawn.y[run] == run).all()


@pytest.mark.parametrize("scenario", ["class", "task", "domain"])
def test_stored_logits_are_those_of_the_moment_of_storage(scenario: str) -> None:
    stream = toy_stream(scenario, dtype=torch.float64)
    sizes = (6, 8, stream.n_outputs)
    learner = DER(sizes, [0, 1], with_options("der", buffer=1000), dtype=torch.float64)
    expected_z, expected_y, active = [], [], []
    for i in range(2):
        task = stream.data(i, 4)
        learner.begin_task(task)
        for k in range(4):
            x, y = task.x[8 * k : 8 * k + 8].expand(2, -1, -1), task.y[8 * k : 8 * k + 8].expand(2, -1)
            expected_z.append(learner.logits(x, slice(0, stream.n_outputs)).clone())
            expected_y.append(y)
            active += [(task.active.start, task.active.stop)] * y.shape[1]
            learner.step(x, y)
        learner.end_task(task)
    n = len(learner.buffer)
    assert n == sum(y.shape[1] for y in expected_y)
    torch.testing.assert_close(learner.buffer.z[:, :n], torch.cat(expected_z, 1))
    assert torch.equal(learner.buffer.y[:, :n], torch.cat(expected_y, 1))
    assert list(zip(learner.buffer.first[0, :n].tolist(), learner.buffer.last[0, :n].tolist(), strict=True)) == active


def loss_of(learner: Any, theta: Tensor, x: Tensor, y: Tensor, drawn: list[Any]) -> Tensor:
    """DER++'s loss written out sample by sample for one run, each sample over the outputs it is asked about."""
    layers = learner.layout.views(theta.unsqueeze(0))

    def z(r: Tensor) -> Tensor:
        for i, (W, b) in enumerate(zip(layers.weights, layers.biases, strict=True)):
            r = W[0] @ r + b[0]
            r = torch.relu(r) if i < len(layers.weights) - 1 else r
        return r

    active = learner.active
    total = torch.zeros((), dtype=theta.dtype)
    for xn, yn in zip(x, y, strict=True):
        total = total - torch.log_softmax(z(xn)[active], 0)[int(yn) - active.start] / len(y)
    for kind, (xs, ys, zs, ranges) in drawn:
        for xn, yn, zn, (lo, hi) in zip(xs, ys, zs, ranges, strict=True):
            now = z(xn)[lo:hi]
            if kind == "logits":
                total = total + 0.7 * (now - zn[lo:hi]).square().mean() / len(ys)
            else:
                total = total - 0.3 * torch.log_softmax(now, 0)[int(yn) - lo] / len(ys)
    return total


@pytest.mark.parametrize("scenario", ["class", "task", "domain"])
def test_gradient_equals_autograd_of_the_loss_on_the_right_heads(scenario: str) -> None:
    """The outputs a replayed sample is asked about are worked out here from the stream: all classes seen (Class-IL),
    its own task's (Task-IL), the shared ones (Domain-IL)."""
    stream = toy_stream(scenario, dtype=torch.float64)
    learner = make("derpp", options=with_options("derpp", alpha=0.7, beta=0.3, buffer=30, replay=9))
    learner = type(learner)((6, 8, stream.n_outputs), [0, 1], learner.options, dtype=torch.float64)
    for i in range(2):
        train_on(learner, stream.data(i, 6), 6)
        learner.end_task(stream.data(i, 6))
    task = stream.data(2, 6)
    train_on(learner, task, 2)
    x, y = task.x[:8].expand(2, -1, -1), task.y[:8].expand(2, -1)
    before = {key: value.clone() for key, value in learner.buffer.state_dict().items()}
    learner.descent(x, learner.one_hot(y, learner.active))
    gradient = learner.gradient.clone()
    learner.buffer.load_state_dict(before)
    batches = [("logits", learner.buffer.draw(9, learner.active)), ("labels", learner.buffer.draw(9, learner.active))]

    def asked(label: int) -> tuple[int, int]:
        if scenario == "task":
            own = next(t.outputs for t in stream.tasks if t.outputs.start <= label < t.outputs.stop)
            return own.start, own.stop
        return 0, stream.n_outputs

    for run in range(2):
        theta = learner.theta[run].clone().requires_grad_()
        drawn = [(kind, (b.x[run], b.y[run], b.z[run], [asked(int(k)) for k in b.y[run]])) for kind, b in batches]
        assert any(int(k) < learner.active.start or scenario != "task" for k in batches[0][1].y[run])
        (expected,) = torch.autograd.grad(loss_of(learner, theta, x[run], y[run], drawn), theta)
        torch.testing.assert_close(gradient[run], expected)


def test_without_weight_on_replay_der_is_sgd() -> None:
    stream = toy_stream("class", dtype=torch.float64)
    der, sgd = make("der", options=with_options("der", alpha=0.0)), make("sgd")
    for learner in (der, sgd):
        for i in range(2):
            train_on(learner, stream.data(i, 5), 5)
            learner.end_task(stream.data(i, 5))
    assert isinstance(sgd, SGD)
    torch.testing.assert_close(der.theta, sgd.theta)
