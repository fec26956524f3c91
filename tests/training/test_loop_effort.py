"""The record of control during training: what it says is what the equations say, whatever the packing or the stops."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import efc
from efc.core import Parameters
from efc.learners import EFC, SGD, EFCOptions, Learner
from efc.runs.results import Epoch
from efc.runs.worker import _trace
from efc.streams import Stream
from efc.training.loop import Effort, Training, train
from support.learner_helpers import PLAIN
from support.oracle import SIGMA, Sample
from support.tasks import toy_stream

SIZES = (6, 8, 7, 6)
EXACT = {"tol": 1e-11, "max_steps": 500}


def efc_learner(seeds: tuple[int, ...] = (0, 1), **options: Any) -> EFC:
    given = {"lr": 1e-2, "beta": 1.0, "solver_options": EXACT} | options
    return EFC(
        SIZES, list(seeds), EFCOptions(**PLAIN, **given), "least_squares", activation="softplus", dtype=torch.float64
    )


def effort_of(learner: Learner, stream: Stream | None = None, epochs: int = 2, batch_size: int = 8) -> Effort:
    found = train(learner, stream or toy_stream("class", dtype=torch.float64), epochs, batch_size).effort
    assert found is not None
    return found


class Watched(EFC):
    """Keeps what every step was solved with."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seen: list[tuple[Parameters, Parameters | None, torch.Tensor, torch.Tensor]] = []

    def descent(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        terms = self.preservation_terms()
        kept = [None if p is None else Parameters(*([t.clone() for t in part] for part in p))
                for p in (self.layers.active(self.active), terms)]  # fmt: skip
        assert kept[0] is not None
        self.seen.append((kept[0], kept[1], x, y))
        return super().descent(x, y)


def expected_norms(
    theta: Parameters, terms: Parameters | None, x: torch.Tensor, y: torch.Tensor, run: int
) -> np.ndarray:
    """(2, L): mean norms of psi and gamma, sample by sample from the oracle's root finder and the formulas."""
    slope = SIGMA["softplus"][1]
    W, b = ([t[run].numpy() for t in part] for part in theta)
    G, Gb = ([np.zeros_like(t) for t in part] for part in (W, b))
    if terms is not None:
        G, Gb = ([t[run].numpy() for t in part] for part in terms)
    total = np.zeros((2, len(W)))
    for k in range(x.shape[1]):
        sample = Sample(W, b, x[run, k].numpy(), y[run, k].numpy(), G, Gb, kappa=0.1, lam=0.01, activation="softplus")
        *r, u = np.split(sample.equilibrium(), np.cumsum([len(w) for w in W[:-1]]))
        pre = [sample.x, *r]
        g, psi = u, [u]
        for i in range(len(W) - 2, -1, -1):
            g = slope(W[i] @ pre[i] + b[i]) * (W[i + 1].T @ g)
            psi.insert(0, g)
        gamma = [-(G[i] @ pre[i] + Gb[i]) for i in range(len(W))]
        total += [[np.linalg.norm(t) for t in psi], [np.linalg.norm(t) for t in gamma]]
    return total / x.shape[1]


def test_the_trace_is_what_the_equations_say() -> None:
    """Two tasks of one batch each: the mean norms against an independent solution of every sample."""
    learner = Watched(SIZES, [0, 1], EFCOptions(**PLAIN, lr=1e-2, beta=30.0, kappa=0.1, lam=0.01, solver_options=EXACT),
                      head="least_squares", activation="softplus", dtype=torch.float64)  # fmt: skip
    stream = toy_stream("class", dtype=torch.float64)
    found = effort_of(learner, stream, epochs=2, batch_size=1000)
    assert found.task.tolist() == [1, 1, 2, 2, 3, 3]
    assert found.epoch.tolist() == [1, 2, 1, 2, 1, 2]
    assert found.psi.shape == found.gamma.shape == (2, 6, 3)
    for at in (0, 3, 5):  # the first epoch, and two with something to preserve
        for run in range(2):
            psi, gamma = expected_norms(*learner.seen[at], run)
            np.testing.assert_allclose(found.psi[run, at], psi, rtol=1e-6)
            np.testing.assert_allclose(found.gamma[run, at], gamma, rtol=1e-6, atol=1e-12)
    assert (found.gamma[:, 3] > 1e-4).all()


def test_an_epoch_is_the_mean_over_its_samples_not_over_its_batches() -> None:
    """With weights that stand still, batches of any size (the last one shorter) give the same means."""
    still = [effort_of(efc_learner(lr=1e-12), batch_size=size) for size in (5, 1000)]
    np.testing.assert_allclose(still[0].psi, still[1].psi, rtol=1e-6)


def test_runs_together_equal_runs_apart() -> None:
    together = effort_of(efc_learner((3, 7, 11)))
    for run, seed in enumerate((3, 7, 11)):
        apart = effort_of(efc_learner((seed,)))
        for name in ("psi", "gamma", "unsettled"):
            np.testing.assert_allclose(getattr(together, name)[run], getattr(apart, name)[0], rtol=0, atol=1e-10)
    assert not np.allclose(together.psi[0], together.psi[1])


def test_gamma_is_zero_where_nothing_is_preserved() -> None:
    without, with_ = effort_of(efc_learner(beta=0.0)), effort_of(efc_learner(beta=10.0))
    assert (without.gamma == 0).all()
    assert (without.psi > 0).all()
    assert (with_.gamma[:, :2] == 0).all()  # the first task
    assert (with_.gamma[:, 3:] > 0).all()


def test_the_epochs_unsettled_shares_make_up_the_whole() -> None:
    options = EFCOptions(**PLAIN, solver="fixed_point", solver_options={"max_steps": 2, "tol": 1e-3})
    stream = toy_stream("class")
    result = train(EFC(SIZES, [0, 1], options, "least_squares"), stream, epochs=3, batch_size=8)
    assert result.effort is not None
    samples = np.repeat([len(task.parts["train"].y) for task in stream.tasks], 3)
    total = (result.effort.unsettled * samples).sum(1) / samples.sum()
    np.testing.assert_allclose(total, result.unsettled)
    assert 0 < total.min() < total.max() < 1
    assert len(np.unique(result.effort.unsettled)) > 3


def with_broken_sample(stream: Stream, value: float) -> Stream:
    """The first task's first sample is not finite."""
    first, *rest = stream.tasks
    part = first.parts["train"]
    x = part.x.clone()
    x[0, 2] = value
    return replace(stream, tasks=(replace(first, parts=first.parts | {"train": replace(part, x=x)}), *rest))


def without_sample(stream: Stream) -> Stream:
    first, *rest = stream.tasks
    part = first.parts["train"]
    cut = replace(part, x=part.x[1:], y=part.y[1:])
    return replace(stream, tasks=(replace(first, parts=first.parts | {"train": cut}), *rest))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_sample_that_is_not_finite_is_left_out_of_the_mean_and_counts_as_unsettled(value: float) -> None:
    def made() -> EFC:
        return EFC(SIZES, [0], EFCOptions(**PLAIN, solver_options=EXACT), head="random", dtype=torch.float64)

    stream = toy_stream("class", dtype=torch.float64)
    broken = effort_of(made(), with_broken_sample(stream, value), epochs=1, batch_size=1000)
    whole = effort_of(made(), without_sample(stream), epochs=1, batch_size=1000)
    np.testing.assert_allclose(broken.psi[:, 0], whole.psi[:, 0], rtol=1e-9)
    n = len(stream.tasks[0].parts["train"].y)
    assert n * broken.unsettled[0, 0] == pytest.approx((n - 1) * whole.unsettled[0, 0] + 1)


def test_a_run_without_a_finite_sample_has_no_means_and_its_neighbour_has() -> None:
    class Wild(EFC):
        def initial(self, dtype: torch.dtype) -> torch.Tensor:
            theta = super().initial(dtype)
            theta[0, 5] = float("nan")
            return theta

    found = effort_of(Wild(SIZES, [0, 1], EFCOptions(**PLAIN, lr=1e-2), dtype=torch.float64))
    assert np.isnan(found.psi[0]).all()
    assert (found.unsettled[0] == 1).all()
    alone = effort_of(EFC(SIZES, [1], EFCOptions(**PLAIN, lr=1e-2), dtype=torch.float64))
    np.testing.assert_allclose(found.psi[1], alone.psi[0], rtol=0, atol=1e-10)
    assert _trace(found, 0)[0] == Epoch(1, 1, [None] * 3, [None] * 3, 1.0)


def test_stopped_in_the_middle_of_an_epoch_the_sums_go_on() -> None:
    """The state holds what the epoch under way has added up so far, and whoever loads it has a copy."""
    stream = toy_stream("class", dtype=torch.float64)
    whole = effort_of(efc_learner())
    first = Training(efc_learner(), stream, 2, 8)
    batches = iter(range(4))
    assert not first.run(boundary=lambda word: word == "batch" and next(batches, None) is None)
    assert (first.task, first.epoch, first.batch) != (0, 0, 0)
    assert first.batch > 0
    second = Training(efc_learner(), stream, 2, 8)
    second.load_state_dict(first.state_dict())
    first.run()  # whoever took the state over must not notice
    assert second.run()
    for found in (first.result().effort, second.result().effort):
        assert found is not None
        for name in ("psi", "gamma", "unsettled"):
            np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))


def test_a_method_without_equilibrium_has_none() -> None:
    assert train(SGD(SIZES, [0]), toy_stream("class"), epochs=1).effort is None


def test_results_tell_the_trace_of_every_run() -> None:
    document = efc.run(methods=["efc", "sgd"], seeds=2, epochs=2, hidden=[12, 8])
    row, other = document["rows"]
    assert other["trace"] is None
    assert len(row["trace"]) == 2
    for trace, share in zip(row["trace"], row["unsettled"]["per_seed"], strict=True):
        assert [(entry["task"], entry["epoch"]) for entry in trace] == [(t, e) for t in range(1, 6) for e in (1, 2)]
        for entry in trace:
            assert len(entry["psi"]) == len(entry["gamma"]) == 3
            for value in (*entry["psi"], *entry["gamma"], entry["unsettled"]):
                assert type(value) is float
                assert value == float(f"{value:.5g}")
        assert min(entry["unsettled"] for entry in trace) <= share <= max(entry["unsettled"] for entry in trace)
    assert row["trace"][0] != row["trace"][1]
