"""Recorded steps (CUDA graphs) do what ordinary steps do. On a machine without a GPU only the choice is tested."""

from __future__ import annotations

import pytest
import torch

from efc.learners import LEARNERS
from efc.learners.record import WARM_UP, Recorder
from efc.learners.sgd import SGD
from support.learner_helpers import make, with_options
from support.tasks import toy_stream

RECORDED = [name for name, cls in LEARNERS.items() if cls.says_recordable()]
cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device: recorded steps cannot be run here")


RIVALS = ("kfac", "ncl", "owm", "gpm", "lwf")


def test_who_is_recorded() -> None:
    ours = {"efc", "efc-paper", "activity", "activity_ewc"}
    assert ours | {"sgd", "ewc", "online_ewc", "si", "mas", "joint", "frozen", *RIVALS} == set(RECORDED)


@pytest.mark.parametrize("name", RECORDED)
def test_nothing_is_recorded_on_a_cpu(name: str) -> None:
    learner = make(name)
    learner.begin_task(toy_stream("class").data(0, 5))
    assert not learner.may_record()


def test_a_subclass_is_not_recorded_unless_it_says_so() -> None:
    class Own(SGD):
        pass

    class Told(SGD):
        recordable = True

    assert SGD.says_recordable()
    assert Own.recordable  # inherited, which must not count
    assert not Own.says_recordable()
    assert Told.says_recordable()


@cuda
@pytest.mark.parametrize(("head", "step"), [("least_squares", "plain"), ("analytic", "plain"), ("zero", "natural")])
@pytest.mark.parametrize("name", RECORDED)
def test_recorded_steps_equal_ordinary_ones(name: str, head: str, step: str) -> None:
    """Two tasks, batches of two sizes; the ordinary learner is the same class with recording switched off."""
    stream = toy_stream("class", dtype=torch.float64).to("cuda")
    options = with_options(name, step="plain" if name == "joint" else step)
    recorded, ordinary = (make(name, head=head, device="cuda", options=options) for _ in range(2))
    ordinary.may_record = lambda: False  # type: ignore[method-assign]
    efforts = []
    for number in range(2):
        for learner in (recorded, ordinary):
            task = stream.data(number, 30, learner.joint)
            learner.begin_task(task)
            for k in range(20):
                n = 5 if k % 4 == 3 else 8
                index = torch.randperm(len(task.y), generator=torch.Generator().manual_seed(k))[:n].cuda()
                told = learner.step(task.x[index].expand(2, -1, -1), task.y[index].expand(2, -1))
            learner.end_task(task)
            efforts.append(told.get("effort", learner.theta))
        torch.testing.assert_close(efforts[-2], efforts[-1], rtol=1e-9, atol=1e-9)
        assert isinstance(recorded._step, Recorder)
        assert len(recorded._step.recordings) == 2
        assert not isinstance(ordinary._step, Recorder)
        torch.testing.assert_close(recorded.theta, ordinary.theta, rtol=1e-9, atol=1e-9)


@cuda
def test_recording_while_others_become_garbage() -> None:
    """A learner is part of a reference cycle: its graphs go when the collector finds them, which must not be then."""
    task = toy_stream("class", dtype=torch.float64).to("cuda").data(0, 30)
    for _ in range(20):
        learner = make("efc", device="cuda")
        learner.begin_task(task)
        for _ in range(WARM_UP + 2):
            learner.step(task.x[:8].expand(2, -1, -1), task.y[:8].expand(2, -1))
        assert torch.isfinite(learner.theta).all()


@cuda
def test_statistics_of_a_recorded_step_are_its_own() -> None:
    """They are read after the next step too: a replay must not change what an earlier one returned."""
    learner = make("efc", device="cuda", options=with_options("efc", solver_options={"tol": 1e-9}))
    task = toy_stream("class", dtype=torch.float64).to("cuda").data(0, 30)
    learner.begin_task(task)
    batches = [(task.x[k : k + 8].expand(2, -1, -1), task.y[k : k + 8].expand(2, -1)) for k in range(WARM_UP + 2)]
    told = [learner.step(x, y) for x, y in batches]
    told[-1]["sweeps"].fill_(-1)
    assert (told[-2]["sweeps"] > 0).all()
