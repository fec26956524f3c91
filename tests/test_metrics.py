"""Known answers for the measures."""

from __future__ import annotations

import numpy as np

from efc.metrics import backward_transfer, final_accuracy, forgetting

NAN = np.nan
A = np.array(
    [[[90, NAN, NAN], [95, 80, NAN], [50, 60, 70]], [[100, NAN, NAN], [100, 100, NAN], [100, 100, 100]]], float
)


def test_known_answers() -> None:
    np.testing.assert_allclose(final_accuracy(A), [60, 100])
    np.testing.assert_allclose(forgetting(A), [(45 + 20) / 2, 0])
    np.testing.assert_allclose(backward_transfer(A), [(-40 - 20) / 2, 0])


def test_a_single_task_forgets_nothing() -> None:
    one = np.array([[[80.0]]])
    assert forgetting(one) == [0]
    assert backward_transfer(one) == [0]
    assert final_accuracy(one) == [80]
