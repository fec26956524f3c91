"""Everything on one device, wherever that is: what runs on the CPU runs elsewhere, with the same numbers.

Elsewhere is a device that is only pretended (`support/pretend.py`), so that these tests run on any machine. The tests
of the core and of recorded steps run on a real GPU too: ``EFC_TEST_DEVICE=cuda``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import efc.classifiers.growing
from efc import EFCClassifier, EFCHead
from efc.learners import LEARNERS
from efc.theory.experiments import EXPERIMENTS
from efc.theory.situation import QUICK, prepare
from efc.training.loop import Training
from support.learner_helpers import make, with_options
from support.tasks import toy_stream

pytest.importorskip("support.pretend", reason="this torch cannot have a device made in Python", exc_type=ImportError)
from support.pretend import DEVICE, Pretended, pretending


def test_two_devices_do_not_mix() -> None:
    """The device itself: what it refuses, and that it computes."""
    with pretending():
        a = torch.tensor([[1.0, -2.0], [3.0, 4.0]], device=DEVICE)
        assert a.device == DEVICE
        for mixed in (
            lambda: a + torch.ones(2, 2),
            lambda: a @ torch.ones(2),
            lambda: torch.cat([a, torch.ones(1, 2)]),
        ):
            with pytest.raises(RuntimeError, match="two devices"):
                mixed()
        with pytest.raises(RuntimeError):
            a.numpy()
        w = torch.ones(2, 3, device=DEVICE, requires_grad=True)
        (torch.relu(a @ w) * torch.tensor(2.0)).sum().backward()  # a number on the CPU is welcome everywhere
        assert isinstance(w.grad, Pretended)
        assert w.grad.tolist() == [[6.0] * 3, [8.0] * 3]
        a[0].mul_(5)
        assert a.cpu().numpy().tolist() == [[5.0, -10.0], [3.0, 4.0]]
        assert a[[1, 0]].tolist() == [[3.0, 4.0], [5.0, -10.0]]
        assert torch.func.vmap(lambda row: (row * row).sum())(a).tolist() == [125.0, 25.0]


def trained(name: str, device: torch.device, head: str | None, scenario: str, **options: Any) -> Training:
    learner = make(name, head=head, options=with_options(name, **options), device=device)
    training = Training(learner, toy_stream(scenario, torch.float64).to(device), epochs=2, batch_size=8)
    training.run()
    return training


CASES = [
    *((name, None, {}) for name in LEARNERS),
    *(("efc", head, {}) for head in ("random", "analytic", "compensated", "input_compensated", "gaussian")),
    ("ewc", "compensated", {}),
    ("sgd", "zero", {"step": "natural"}),
    ("activity", "zero", {"step": "natural", "mu": [1.0, 9.0], "rank": 3}),
    ("efc", "zero", {"rank": 2}),
    ("efc", None, {"anchor": 0.5, "preservation": "si", "normalise": "neuron"}),
    ("efc", None, {"feedback": "learned", "feedback_warm_up": 5}),
    ("efc", None, {"feedback": "least_control", "solver": "newton"}),
    ("efc", None, {"output": "linear", "form": "additive", "head_rule": "rates"}),
]


@pytest.mark.parametrize(("name", "head", "options"), CASES, ids=str)
def test_training_elsewhere_is_training(name: str, head: str | None, options: dict[str, Any]) -> None:
    here = trained(name, torch.device("cpu"), head, "class", **options).result()
    with pretending() as device:
        training = trained(name, device, head, "class", **options)
        there = training.result()
        kept = training.state_dict()
        assert training.learner.theta.device == device
        again = make(name, head=head, options=with_options(name, **options), device=device)
        Training(again, training.stream, epochs=2, batch_size=8).load_state_dict(
            {key: value.cpu() if isinstance(value, Tensor) else value for key, value in kept.items()}
        )
        assert again.theta.tolist() == training.learner.theta.tolist()
        assert again.theta.device == device
    np.testing.assert_allclose(there.accuracy_matrix, here.accuracy_matrix)
    np.testing.assert_allclose(there.confusion, here.confusion)
    assert (there.effort is None) == (here.effort is None)
    if here.effort is not None and there.effort is not None:
        np.testing.assert_allclose(there.effort.psi, here.effort.psi, rtol=1e-6)
        np.testing.assert_allclose(there.effort.gamma, here.effort.gamma, rtol=1e-6, atol=1e-12)
        assert here.effort.psi.max() > 0


@pytest.mark.parametrize("name", ["efc", "ewc", "derpp"])
def test_tasks_told_at_test_time(name: str) -> None:
    here = trained(name, torch.device("cpu"), None, "task").result()
    with pretending() as device:
        there = trained(name, device, None, "task").result()
    np.testing.assert_allclose(there.accuracy_matrix, here.accuracy_matrix)


@pytest.mark.parametrize("method", ["efc", "derpp", "full_fisher"])
def test_a_head_that_moves(method: str) -> None:
    """Learned elsewhere, brought back, moved there again, where it goes on learning."""
    x, y = toy_stream().tasks[0].parts["train"].x, toy_stream().tasks[0].parts["train"].y
    new = toy_stream().tasks[1].parts["train"]
    with pretending() as device:
        head = EFCHead(6, method=method, hidden=(8,), epochs=2).to(device)
        head.learn_task([(x.to(device), y.to(device))])
        assert head(x.to(device)).device == device
        home = head.to("cpu")(x)
        head.to(device).learn_task([(new.x.to(device), new.y.to(device))])
        both = head(x.to(device)).cpu()
        assert head.predict(x.to(device), task=1).device == device
        other = EFCHead(6, method=method, hidden=(8,), epochs=2)
        other.load_state_dict({key: value.cpu() for key, value in head.state_dict().items()})
        assert torch.equal(other(x), both)
    assert home.shape[1] == 2
    assert both.shape[1] == 4


def test_an_estimator_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    parts = [task.parts["train"] for task in toy_stream().tasks]
    answers = []
    for name in ("cpu", "pretend"):
        with pretending():
            monkeypatch.setattr(efc.classifiers.growing, "pick_device", torch.device)
            model = EFCClassifier((8,), epochs=2, device=name, random_state=0)
            for part in parts:
                model.partial_fit(part.x.numpy(), part.y.numpy())
            answers.append(model.predict_proba(parts[0].x.numpy()))
            model.save(tmp_path / name)
            again = EFCClassifier.load(tmp_path / name)
            np.testing.assert_allclose(again.predict_proba(parts[0].x.numpy()), answers[-1])
    assert answers[0].shape == (len(parts[0].y), 6)
    np.testing.assert_allclose(answers[0], answers[1], rtol=1e-5)


SMALL = replace(QUICK, seeds=1, epochs=2, fisher_samples=20, probes=2, test_samples=20)


@pytest.mark.parametrize("name", ["curvature", "steady-state", "natural-gradient", "interference", "bounds"])
def test_theory_elsewhere(name: str, tmp_path: Path) -> None:
    """The experiments that take seconds; the others run through the same functions (`efc theory --device cuda`)."""
    with pretending() as device:
        situation = prepare(SMALL, device, tmp_path)
        assert situation.theta_A.device == device
        numbers = EXPERIMENTS[name].measure(situation, lambda _: None)
    assert EXPERIMENTS[name].judge(numbers)
