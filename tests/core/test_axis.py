"""Numbers along the run axis."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from efc.core.axis import per_run
from efc.errors import EFCError


@pytest.mark.parametrize("value", [0.5, [0.5], torch.tensor(0.5), [0.5, 0.5, 0.5], torch.full((3, 1, 1), 0.5)], ids=str)
def test_one_number_or_one_per_run(value: Any) -> None:
    found = per_run("beta", value, 3, torch.zeros(1, dtype=torch.float64))
    assert found.shape == (3, 1, 1)
    assert found.dtype == torch.float64
    assert found.flatten().tolist() == [0.5, 0.5, 0.5]


def test_numbers_stay_with_their_runs() -> None:
    x = torch.ones(2, 4, 3)
    scaled = per_run("beta", [1.0, 2.0], 2, x) * x
    assert (scaled[0] == 1).all()
    assert (scaled[1] == 2).all()


def test_another_count_is_refused() -> None:
    with pytest.raises(EFCError, match=r"^beta: give one value or one per run \(2\), got 3 values$"):
        per_run("beta", [1.0, 2.0, 3.0], 2, torch.zeros(1))
