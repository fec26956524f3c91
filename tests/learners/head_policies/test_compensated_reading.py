"""Heads that choose their ridge, read the inputs too, and take back features that do not help."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from efc.core.task import TaskData
from efc.learners import SGD, EFCOptions, Options
from efc.learners.efc import EFC
from efc.learners.head_policies import AnalyticHead
from efc.learners.readout import Regression


def linear_task(new: slice, seed: int, n: int = 60) -> TaskData:
    """Labels that are a linear function of thirty inputs: few random units cannot follow it, the inputs can."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 30, generator=generator, dtype=torch.float64)
    side = (x @ torch.randn(30, generator=torch.Generator().manual_seed(9), dtype=torch.float64)) > 0
    return TaskData(x, new.start + side.long(), active=slice(0, new.stop), new=new, steps=4)


def accuracy(learner: SGD, task: TaskData) -> float:
    return float((learner.logits(task.x, task.new)[0].argmax(-1) == task.y - task.new.start).double().mean())


def test_a_head_that_reads_the_inputs_is_at_least_linear() -> None:
    def learned(skip: str) -> float:
        learner = SGD((30, 3, 2), [0], Options(skip=skip), head="input_compensated", dtype=torch.float64)
        task = linear_task(slice(0, 2), 0, 300)
        learner.begin_task(task)
        learner.end_task(task)
        return accuracy(learner, linear_task(slice(0, 2), 1, 300))

    assert learned("on") > 0.9
    assert learned("off") < 0.8


def test_what_it_reads_comes_back_from_a_state() -> None:
    def make() -> SGD:
        return SGD((30, 3, 2), [0], Options(skip="on"), head="input_compensated", dtype=torch.float64)

    learner, task = make(), linear_task(slice(0, 2), 0)
    learner.begin_task(task)
    learner.end_task(task)
    again = make()
    again.load_state_dict({key: value.clone() for key, value in learner.state_dict().items()})
    torch.testing.assert_close(again.logits(task.x, slice(0, 2)), learner.logits(task.x, slice(0, 2)))


@pytest.mark.parametrize("sense", [True, False])
def test_features_are_kept_if_held_out_samples_vouch_for_them(sense: bool) -> None:
    """Labels that few random units cannot follow, and labels by chance, which can only be learned by heart."""
    options = EFCOptions(inputs="raw", skip="off", lr=3e-3, drift="checked", pull=0.0, beta=0.0)
    learner = EFC((30, 10, 2), [0], options, head="input_compensated", dtype=torch.float64)
    full, held = linear_task(slice(0, 2), 0, 200), torch.arange(200) % 5 == 0
    y = full.y if sense else torch.randint(2, (200,), generator=torch.Generator().manual_seed(1))
    task = TaskData(full.x, y, full.active, full.new, steps=600, held=held)
    learner.begin_task(task)
    before = learner.theta[:, :300].clone()
    shown = task.part(~held)
    for at in range(600):
        some = torch.arange(at * 32, at * 32 + 32) % 160
        learner.step(shown.x[some][None], shown.y[some][None])
    assert not torch.equal(learner.theta[:, :300], before)
    learner.end_task(task)
    assert torch.equal(learner.theta[:, :300], before) != sense


@pytest.mark.parametrize(("left", "kept"), [(0.95, (True, False)), (0.85, (True, True)), (1.05, (False, False))])
def test_beside_old_tasks_new_features_have_to_be_worth_their_drift(
    left: float, kept: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors of any size: with the new features they are ``left`` times those with the old ones."""
    learner = EFC((30, 5, 4), [0], EFCOptions(lr=1e-3), head="input_compensated", dtype=torch.float64)
    errors = iter([left, 1.0] * 2)
    monkeypatch.setattr(learner.head_policy, "_error", lambda *_: torch.tensor([next(errors)], dtype=torch.float64))
    for i, expected in enumerate(kept):
        task = linear_task(slice(2 * i, 2 * i + 2), i)
        task = replace(task, held=torch.arange(len(task.y)) % 5 == 0)
        learner.begin_task(task)
        before = learner.theta[:, : 5 * 30].clone()
        for _ in range(4):
            learner.step(task.x[None], task.y[None])
        learner.end_task(task)
        assert torch.equal(learner.theta[:, : 5 * 30], before) != expected


@pytest.mark.parametrize("asked", [True, False])
def test_features_are_taken_back_where_nothing_could_be_held_out(asked: bool) -> None:
    """Too few samples to hold any out; not so where nobody was asked to: a caller with a loop of its own."""
    options = EFCOptions(inputs="raw", drift="checked")
    learner = EFC((30, 5, 2), [0], options, head="input_compensated", dtype=torch.float64)
    assert learner.holds_out
    task = linear_task(slice(0, 2), 0)
    if asked:
        task = replace(task, held=torch.zeros(len(task.y), dtype=torch.bool))
    learner.begin_task(task)
    before = learner.theta[:, : 5 * 30].clone()
    learner.step(task.x[None], task.y[None])
    assert not torch.equal(learner.theta[:, : 5 * 30], before)
    learner.end_task(task)
    assert torch.equal(learner.theta[:, : 5 * 30], before) == asked


@pytest.mark.parametrize("skip", ["off", "on"])
def test_temperatures_are_judged_by_heads_fitted_without_each_sample(skip: str) -> None:
    """Against one refit for every sample, by hand."""
    options = Options(inputs="raw", skip=skip, ridge=1e-2, readout="regression")
    learner = SGD((30, 4, 2), [0], options, head="input_compensated", dtype=torch.float64)
    task = linear_task(slice(0, 2), 0, 40)
    learner.begin_task(task)
    learner.end_task(task)
    h = torch.relu(task.x @ learner.layers.weights[0][0].T + learner.layers.biases[0][0])
    f = torch.cat([*([task.x] if skip == "on" else []), h, torch.ones(40, 1, dtype=h.dtype)], 1)
    Y = torch.nn.functional.one_hot(task.y, 2).double()
    answers = []
    for k in range(40):
        others = torch.arange(40) != k
        A = f[others].T @ f[others] + 1e-2 * 40 * torch.eye(f.shape[1], dtype=f.dtype)
        answers.append(f[k] @ torch.linalg.solve(A, f[others].T @ Y[others]))
    z = torch.stack(answers)
    policy = learner.head_policy
    assert isinstance(policy, AnalyticHead)
    (found,), unit = policy.misfit(task)
    assert unit.tolist() == [1.0]
    for k in (0, 20, 70):
        right = torch.softmax(z / Regression.temperatures[k], 1)[torch.arange(40), task.y]
        assert float(found[k]) == pytest.approx(-float((0.8 * right + 0.2 / 2).log().sum()))
