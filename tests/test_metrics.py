"""Known answers for the measures."""

from __future__ import annotations

import numpy as np

from efc import metrics

NAN = np.nan
A = np.array(
    [[[90, NAN, NAN], [95, 80, NAN], [50, 60, 70]], [[100, NAN, NAN], [100, 100, NAN], [100, 100, 100]]], float
)


def test_known_answers() -> None:
    np.testing.assert_allclose(metrics.final_accuracy(A), [60, 100])
    np.testing.assert_allclose(metrics.average_incremental_accuracy(A), [(90 + 87.5 + 60) / 3, 100])
    np.testing.assert_allclose(metrics.forgetting(A), [(45 + 20) / 2, 0])
    np.testing.assert_allclose(metrics.backward_transfer(A), [(-40 - 20) / 2, 0])


def test_forward_transfer_leaves_the_first_task_out() -> None:
    before, untrained = np.array([[7.0, 60, 20]]), np.array([[0.0, 50, 25]])
    np.testing.assert_allclose(metrics.forward_transfer(before, untrained), [(10 - 5) / 2])


def test_shares_of_the_tasks_in_answers_and_samples() -> None:
    confusion = np.array([[[8, 0, 0, 2], [0, 5, 5, 0], [0, 0, 10, 0], [0, 0, 0, 0]]], float)
    tasks = [slice(0, 2), slice(2, 4)]
    np.testing.assert_allclose(metrics.prediction_share(confusion, tasks), [[100 * 13 / 30, 100 * 17 / 30]])
    np.testing.assert_allclose(metrics.true_share(confusion, tasks), [[100 * 20 / 30, 100 * 10 / 30]])
    nothing = np.zeros((1, 4, 4))
    np.testing.assert_allclose(metrics.prediction_share(nothing, tasks), [[0, 0]])


def test_a_single_task_forgets_nothing() -> None:
    one = np.array([[[80.0]]])
    assert metrics.forgetting(one) == [0]
    assert metrics.backward_transfer(one) == [0]
    assert metrics.forward_transfer(np.array([[50.0]]), np.array([[40.0]])) == [0]
    assert metrics.final_accuracy(one) == metrics.average_incremental_accuracy(one) == [80]


def test_accuracy_over_samples_counts_every_sample_once() -> None:
    """Tasks of 90 and 10 samples, 80 % and 20 % of them right: 74 % of all, where the mean over tasks is 50 %."""
    confusion = np.array([[[72, 18], [8, 2]]], float)
    np.testing.assert_allclose(metrics.sample_accuracy(confusion), [74])
    np.testing.assert_allclose(metrics.sample_accuracy(confusion, samples=148), [50])  # a run left some unanswered
    np.testing.assert_allclose(metrics.sample_accuracy(np.zeros((1, 2, 2))), [0])
