"""The factored Fisher against the dense matrix, and its memory at the size the theory chapter needs."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from efc.learners.full_fisher import FullFisherMemory
from support.gradients import sample_gradients
from support.learner_helpers import make, train_on
from support.tasks import toy_stream


@pytest.mark.parametrize("scenario", ["class", "task"])
def test_gradient_equals_the_dense_matrices_of_all_tasks(scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """``sum_t F_t (theta - theta_t*)``, each F_t formed as a P x P matrix, each task with its own anchor."""
    monkeypatch.setattr("efc.learners.full_fisher.ROWS", 10)  # several products, the last one short
    stream = toy_stream(scenario, dtype=torch.float64)
    learner = make("full_fisher")
    memory = learner.memory  # type: ignore[attr-defined]
    assert isinstance(memory, FullFisherMemory)
    dense, anchors = [], []
    for i in range(3):
        task = stream.data(i, 6)
        train_on(learner, task, 6)
        each = [sample_gradients(learner, run, task, "loss") for run in range(2)]
        dense.append(torch.stack([g.T @ g / len(g) for g in each]))
        anchors.append(learner.theta.clone())
        learner.end_task(task)
    theta = learner.theta + 0.1 * torch.randn_like(learner.theta)
    expected = sum(torch.einsum("rpq,rq->rp", F, theta - a) for F, a in zip(dense, anchors, strict=True))
    torch.testing.assert_close(memory.gradient(theta), torch.as_tensor(expected), rtol=1e-9, atol=1e-12)


def test_inputs_are_kept_once_for_all_runs() -> None:
    learner = make("full_fisher", seeds=(0, 1, 2))
    task = toy_stream("class", dtype=torch.float64).data(0, 2)
    train_on(learner, task, 2)
    learner.end_task(task)
    memory = learner.memory  # type: ignore[attr-defined]
    assert memory.rates[0].shape == (1, len(task.y), 6)
    assert memory.rates[1].shape == (3, len(task.y), 8)


MEASURE = """
import resource, torch
from efc.learners import FullFisher, FullFisherOptions, TaskData
torch.manual_seed(0)
x, y = torch.rand(12000, 784), torch.randint(5, (12000,))
task = TaskData(x, y, slice(0, 5), slice(0, 5), 1)
learner = FullFisher((784, 64, 64, 10), [0], FullFisherOptions(strength=10.0))
learner.begin_task(task)
learner.end_task(task)
learner.begin_task(TaskData(x, y + 5, slice(0, 10), slice(5, 10), 3))
for k in range(3):
    learner.step(x[:256].unsqueeze(0), y[:256].unsqueeze(0) + 5)
assert torch.isfinite(learner.theta).all()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_stays_under_three_gibibytes() -> None:
    """784-64-64-10 and 12,000 samples: the P x P matrix alone would take 12 GiB in single precision."""
    done = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 3 * 1024**2  # kilobytes
