"""The common starting point of the experiments: the same samples and orders for everyone, task A learned once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from efc.streams.split import Part
from efc.theory.situation import QUICK, Situation, batches, one_hot, prepare, some

SMALL = replace(QUICK, hidden=(8,), seeds=2, epochs=40)


def test_some_samples_are_the_same_ones_every_time() -> None:
    part = Part(torch.arange(40.0).view(20, 2), torch.arange(20))
    chosen = some(part, 6)
    assert torch.equal(chosen.y, some(part, 6).y)
    assert len(set(chosen.y.tolist())) == 6
    assert torch.equal(chosen.x, part.x[chosen.y])  # samples keep their labels
    assert some(part, 20) is part


def test_one_hot_counts_from_the_first_class() -> None:
    found = one_hot(torch.tensor([2, 4]), slice(2, 5), torch.zeros(1, dtype=torch.float64))
    assert found.tolist() == [[1, 0, 0], [0, 0, 1]]
    assert found.dtype == torch.float64


def test_batches_are_whole_and_each_run_has_its_own_order() -> None:
    found = batches(n=10, size=4, steps=5, seeds=[0, 1])
    assert [tuple(batch.shape) for batch in found] == [(2, 4)] * 5
    first_epoch = torch.cat(found[:2], 1)
    assert all(len(set(row.tolist())) == 8 for row in first_epoch)
    assert not torch.equal(first_epoch[0], first_epoch[1])
    alone = batches(n=10, size=4, steps=5, seeds=[1])
    assert all(torch.equal(a, b[1:]) for a, b in zip(alone, found, strict=True))
    assert tuple(batches(n=3, size=8, steps=1, seeds=[0])[0].shape) == (1, 3)


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Situation, Path]:
    folder = tmp_path_factory.mktemp("theory")
    return prepare(SMALL, folder=folder), folder


def test_task_A_is_learned_and_task_B_is_not(learned: tuple[Situation, Path]) -> None:
    situation, _ = learned
    held = [situation.held_out(task) for task in (0, 1)]
    layers = situation.layout.views(situation.theta_A)
    right = []
    for part, classes in zip(held, (situation.classes_A, situation.classes), strict=True):
        r = torch.relu(part.x @ layers.weights[0].transpose(1, 2) + layers.biases[0].unsqueeze(1))
        z = (r @ layers.weights[1].transpose(1, 2) + layers.biases[1].unsqueeze(1))[..., classes]
        right.append((z.argmax(-1) == part.y).double().mean(1))
    assert (right[0] > 0.8).all()
    assert (right[1] < 0.3).all()


def test_it_is_learned_once(learned: tuple[Situation, Path]) -> None:
    situation, folder = learned
    stored = folder / "theta_A.safetensors"
    before = stored.stat().st_mtime_ns
    assert torch.equal(prepare(SMALL, folder=folder).theta_A, situation.theta_A)
    assert stored.stat().st_mtime_ns == before
    assert torch.equal(prepare(SMALL).theta_A, situation.theta_A)  # and comes out the same


def test_what_the_tasks_ask_about(learned: tuple[Situation, Path]) -> None:
    situation, _ = learned
    first, second = situation.task(0), situation.task(1, steps=7)
    assert (first.active, first.new) == (slice(0, 5), slice(0, 5))
    assert (second.active, second.new, second.steps) == (slice(0, 10), slice(5, 10), 7)
    assert len(first.y) == SMALL.fisher_samples
    assert len(situation.probes.y) == SMALL.probes
    assert situation.diagonal().shape == situation.theta_A.shape
    assert (situation.diagonal() >= 0).all()
