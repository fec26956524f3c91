"""Learning as data arrive: whatever the cut, nothing is lost, and nobody says when a task begins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor

from efc.core.task import TaskData
from efc.errors import EFCError
from efc.learners import LEARNERS, Learner
from efc.learners.analytic import AnalyticOptions
from efc.learners.arrivals import PIECE, WINDOW
from efc.learners.slda import SLDAOptions
from support.learner_helpers import fit
from support.learner_helpers import make as toy

STREAMING = [name for name, cls in LEARNERS.items() if cls.__dict__.get("streams")]
SIZES = (64, 40, 10)


def digits(shuffled: bool = False) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A stream of 1300 digits, two classes at a time or all mixed, outputs numbered as they appear; and 497 others."""
    found = load_digits()
    rng = np.random.default_rng(0)
    order = rng.permutation(len(found.target))
    x, y = torch.tensor(found.data[order]), found.target[order]
    first = np.arange(1300) if shuffled else np.argsort(y[:1300] // 2, kind="stable")
    named = {label: k for k, label in enumerate(dict.fromkeys(y[first].tolist()))}
    outputs = torch.tensor([named[label] for label in y.tolist()])
    return x[first], outputs[first], x[1300:], outputs[1300:]


STREAM = digits()


def make(name: str, **given: Any) -> Learner:
    cls = LEARNERS[name]
    return cls(SIZES, [0], cls.options_type(), **{"head": cls.stream_head, **given})


def feed(learner: Learner, x: Tensor, y: Tensor, size: int) -> Learner:
    for some, outputs in zip(x.split(size), y.split(size), strict=True):
        learner.observe(some, outputs)
    learner.settle()
    return learner


def accuracy(learner: Learner, x: Tensor, y: Tensor) -> float:
    return float((learner.logits(x, slice(0, 10))[0].argmax(-1) == y).double().mean())


def same(one: dict[str, Tensor], two: dict[str, Tensor]) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one)


def test_those_of_the_issue_stream() -> None:
    asked = {"efc", "activity", "owm", "ncl", "online_ewc", "mas", "sgd", "derpp", "analytic", "slda"}
    assert asked <= set(STREAMING)


@pytest.mark.parametrize("name", STREAMING)
def test_how_the_stream_is_cut_makes_no_difference(name: str) -> None:
    x, y, *_ = (part[:560] for part in STREAM)
    one, two = feed(make(name), x, y, 16), feed(make(name), x, y, 7)
    assert torch.allclose(one.theta, two.theta, rtol=1e-5, atol=1e-7)
    fresh = make(name).theta
    assert not torch.allclose(one.theta, fresh, atol=1e-3)


def test_single_samples_and_all_at_once() -> None:
    x, y, *_ = (part[:70] for part in STREAM)
    one, two = feed(make("efc"), x, y, 1), feed(make("efc"), x, y, 70)
    assert torch.allclose(one.logits(x, slice(0, 2)), two.logits(x, slice(0, 2)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", STREAMING)
def test_resumed_in_the_middle_of_a_piece_it_goes_on_bit_for_bit(name: str) -> None:
    x, y, *_ = STREAM
    whole = make(name)
    for some, outputs in zip(x[:523].split(13), y[:523].split(13), strict=True):
        whole.observe(some, outputs)
    kept = {key: value.clone() for key, value in whole.state_dict().items()}
    resumed = make(name)
    resumed.load_state_dict(kept)
    for learner in (whole, resumed):
        feed(learner, x[523:580], y[523:580], 13)
    assert same(whole.state_dict(), resumed.state_dict())
    assert not torch.equal(whole.theta, kept["theta"])


def test_the_default_forgets_nothing_whatever_the_order() -> None:
    """Two classes at a time or all mixed: all that counts is what there was; plain training loses old classes."""
    apart = accuracy(feed(make("efc"), *STREAM[:2], 16), *STREAM[2:])
    x, y, *test = digits(shuffled=True)
    mixed = accuracy(feed(make("efc"), x, y, 16), *test)
    assert apart > 0.93
    assert mixed > 0.93
    assert accuracy(feed(make("sgd"), *STREAM[:2], 16), *STREAM[2:]) < 0.5


def told(x: Tensor, y: Tensor, groups: Tensor) -> Learner:
    """The same samples in the same order once, with a beginning and an end told for each group of classes."""
    learner, known = make("efc"), 0
    for group in groups.unique().tolist():
        some, outputs = x[groups == group], y[groups == group]
        top = max(known, int(outputs.max()) + 1)
        task = TaskData(some, outputs, slice(0, top), slice(known, top), steps=-(-len(outputs) // PIECE))
        known = top
        learner.begin_task(task)
        for a, b in zip(some.split(PIECE), outputs.split(PIECE), strict=True):
            learner.step(a[None], b[None])
        learner.end_task(task)
    return learner


def test_boundaries_that_are_told_are_no_advantage() -> None:
    """Two classes at a time, each sample once, in pieces of 16: the rule that is told when tasks begin and end has no
    lead over the one that is not."""
    x, y, *test = STREAM
    with_them, without = told(x, y, y // 2), feed(make("efc"), x, y, PIECE)
    assert accuracy(with_them, *test) > 0.9
    assert accuracy(without, *test) > accuracy(with_them, *test) - 0.02


def test_in_mixed_order_nothing_is_lost_to_an_epoch_of_ordinary_training() -> None:
    """All classes at once and shuffled: one epoch of the same rule on everything as one task, which is asked for no
    more than that, and of plain training with a head that is trained."""
    x, y, *test = digits(shuffled=True)
    mixed = accuracy(feed(make("efc"), x, y, PIECE), *test)
    assert mixed > accuracy(told(x, y, torch.zeros_like(y)), *test) - 0.02
    cls = LEARNERS["sgd"]
    plain = cls(SIZES, [0], cls.options_type(), head="random")
    task = TaskData(x, y, slice(0, 10), slice(0, 10), steps=-(-len(y) // PIECE))
    plain.begin_task(task)
    for a, b in zip(x.split(PIECE), y.split(PIECE), strict=True):
        plain.step(a[None], b[None])
    plain.end_task(task)
    assert mixed > accuracy(plain, *test)


def change_of_answers(name: str) -> float:
    """How far the answers to the first window have moved when the second one has been learned."""
    x, y, *_ = STREAM
    learner = feed(make(name), x[:WINDOW], y[:WINDOW], 16)
    known = slice(0, int(y[:WINDOW].max()) + 1)
    before = learner.logits(x[:WINDOW], known).clone()
    after = feed(learner, x[WINDOW : 2 * WINDOW], y[WINDOW : 2 * WINDOW], 16).logits(x[:WINDOW], known)
    return float((after - before).square().mean())


def test_what_a_window_remembers_holds_the_answers_in_the_next() -> None:
    plain = change_of_answers("sgd")
    for name in ("activity", "owm"):
        assert change_of_answers(name) < 0.5 * plain


def one_hot(y: Tensor) -> Tensor:
    return torch.nn.functional.one_hot(y, 10).double()


def test_recursive_ridge_is_ridge_regression_on_everything() -> None:
    x, y, *_ = STREAM
    learner = LEARNERS["analytic"]((64, 10), [0], AnalyticOptions(ridge=1e-3, inputs="raw"))
    feed(learner, x, y, 5)
    F = torch.cat([x, torch.ones(len(x), 1, dtype=torch.float64)], 1)
    V = torch.linalg.solve(F.T @ F + 1e-3 * len(x) * torch.eye(65, dtype=torch.float64), F.T @ one_hot(y))
    assert torch.allclose(learner.layers.weights[0][0], V[:-1].T, atol=1e-8)
    assert torch.allclose(learner.layers.biases[0][0], V[-1], atol=1e-8)


def test_streaming_discriminant_is_that_of_everything() -> None:
    x, y, *_ = STREAM
    learner = feed(LEARNERS["slda"]((64, 10), [0], SLDAOptions(shrinkage=1e-2, inputs="raw")), x, y, 9)
    mu = torch.stack([x[y == k].mean(0) for k in range(10)])
    v = x - mu[y]
    P = torch.linalg.inv(0.99 * v.T @ v / len(x) + 0.01 * torch.eye(64, dtype=torch.float64))
    assert torch.allclose(learner.layers.weights[0][0], mu @ P, atol=1e-8)
    assert torch.allclose(learner.layers.biases[0][0], -0.5 * ((mu @ P) * mu).sum(1), atol=1e-8)


def test_the_scale_of_the_inputs_does_not_matter() -> None:
    """Every column in a unit of its own, far from zero: the same answers, but for rounding."""
    x, y, vx, vy = digits(shuffled=True)
    units = torch.logspace(-3, 3, 64, dtype=torch.float64)
    plain, far = feed(make("efc"), x, y, 50), feed(make("efc"), x * units + 100.0, y, 50)
    assert abs(accuracy(plain, vx, vy) - accuracy(far, vx * units + 100.0, vy)) < 0.02
    assert far.inputs is not None
    assert float(far.inputs.n) == WINDOW


def test_answers_are_there_from_the_first_sample_on() -> None:
    x, y, *_ = STREAM
    learner = make("efc")
    for n in range(1, 5):
        learner.observe(x[n - 1 : n], y[n - 1 : n])
        assert bool(torch.isfinite(learner.logits(x[:n], slice(0, 2))).all())
    other = int((y == 1).nonzero()[0])
    one, two = x[y == 0][:PIECE], x[other : other + 1]
    learner = make("efc")
    learner.observe(one, torch.zeros(PIECE, dtype=torch.long))
    learner.observe(two, torch.ones(1, dtype=torch.long))
    assert int(learner.logits(two, slice(0, 2))[0].argmax()) == 1


def test_what_is_kept_of_the_stream_is_less_than_a_window() -> None:
    x, y, *_ = STREAM
    learner = feed(make("efc"), x, y, 100)
    state = learner.state_dict()
    assert len(state["arrivals.y"]) == len(x) % WINDOW
    assert max(value.shape[0] for key, value in state.items() if "arrivals" in key and value.dim()) < WINDOW


@pytest.mark.parametrize("name", [name for name in LEARNERS if name not in STREAMING])
def test_the_others_say_that_they_need_tasks(name: str) -> None:
    with pytest.raises(EFCError, match=rf"^{name}: it needs tasks"):
        LEARNERS[name](SIZES, [0]).observe(torch.zeros(2, 64), torch.zeros(2, dtype=torch.long))


def test_mistakes_are_told() -> None:
    x, y, *_ = STREAM
    with pytest.raises(EFCError, match="head: 'least_squares' needs tasks"):
        make("sgd", head="least_squares").observe(x[:2], y[:2])
    learner = make("sgd")
    with pytest.raises(EFCError, match="output 2 came after 0 others"):
        learner.observe(x[:2], torch.tensor([2, 0]))
    with pytest.raises(EFCError, match="not finite"):
        learner.observe(x[:1] * float("nan"), y[:1])
    with pytest.raises(EFCError, match=r"expected inputs \(B, 64\)"):
        learner.observe(x[:2, :3], y[:2])
    assert learner.arrivals is not None
    assert learner.arrivals.seen == 0


def test_what_has_learned_tasks_observes_no_stream() -> None:
    learner = fit(toy("sgd", head="zero"), epochs=1)
    with pytest.raises(EFCError, match="has learned tasks"):
        learner.observe(torch.zeros(1, 6), torch.zeros(1, dtype=torch.long))


def test_several_runs_see_one_stream() -> None:
    x, y, *_ = (part[:200] for part in STREAM)
    cls = LEARNERS["efc"]
    both = feed(cls(SIZES, [0, 1], cls.options_type(), head="input_compensated"), x, y, 16)
    second = feed(cls(SIZES, [1], cls.options_type(), head="input_compensated"), x, y, 16)
    z = both.logits(x, slice(0, 2))
    assert torch.allclose(z[1], second.logits(x, slice(0, 2))[0], rtol=1e-3, atol=1e-3)
    assert not torch.allclose(z[0], z[1], rtol=1e-3, atol=1e-3)
