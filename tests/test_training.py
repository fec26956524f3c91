"""The training loop: own order per run, honest evaluation, counts that add up."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from efc.errors import EFCError
from efc.learners import EFC, SGD, EFCOptions, Options
from efc.training import shuffled, train
from tasks import toy_stream


def test_every_run_sees_every_sample_once_in_its_own_order() -> None:
    def epoch(seeds: list[int]) -> torch.Tensor:
        generators = [torch.Generator().manual_seed(s) for s in seeds]
        return torch.cat(list(shuffled(23, 5, generators, torch.device("cpu"))), 1)

    both = epoch([4, 9])
    assert torch.equal(both.sort(1).values, torch.arange(23).expand(2, -1))
    assert not torch.equal(both[0], both[1])
    assert torch.equal(both[1], epoch([9])[0])


def test_results_are_consistent() -> None:
    stream = toy_stream("class")
    result = train(SGD((6, 12, 6), [0, 1, 2], Options(lr=1e-2)), stream, epochs=5, batch_size=8)
    A = result.accuracy_matrix
    assert np.isnan(A[:, 0, 1:]).all()
    assert not np.isnan(A[:, np.tril_indices(3)[0], np.tril_indices(3)[1]]).any()
    sizes = [len(task.parts["test"].y) for task in stream.tasks]
    np.testing.assert_array_equal(result.confusion.sum((1, 2)), sum(sizes))
    for j, task in enumerate(stream.tasks):
        own = np.einsum("rkk->rk", result.confusion)[:, task.outputs].sum(1)
        np.testing.assert_allclose(100 * own / sizes[j], A[:, -1, j])
    assert result.unsettled is None
    assert result.diverged == []


def test_unsettled_samples_are_counted() -> None:
    options = EFCOptions(solver="fixed_point", solver_options={"max_steps": 1, "tol": 1e-6})
    result = train(EFC((6, 12, 6), [0, 1], options), toy_stream("class"), epochs=1, batch_size=8)
    assert result.unsettled is not None
    assert (result.unsettled > 0.5).all()


def test_task_il_is_easier_than_class_il_for_plain_training() -> None:
    final = {}
    for scenario in ("class", "task"):
        learner = SGD((6, 12, 6), [0, 1], Options(lr=1e-2), head="random")
        final[scenario] = train(learner, toy_stream(scenario), epochs=10, batch_size=8).accuracy_matrix[:, -1].mean()
    assert final["class"] < 45
    assert final["task"] > 80


def test_validation_part_is_evaluated_when_asked_for() -> None:
    stream = toy_stream("class")
    learner = SGD((6, 12, 6), [0], Options(lr=1e-2))
    confusion = train(learner, stream, epochs=1, batch_size=8, evaluate="validation").confusion
    assert confusion.sum() == sum(len(task.parts["validation"].y) for task in stream.tasks)
    with pytest.raises(EFCError, match="evaluate"):
        train(learner, stream, evaluate="tests")
    with pytest.raises(EFCError, match="epochs"):
        train(learner, stream, epochs=0)
