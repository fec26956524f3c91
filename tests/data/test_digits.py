"""The embedded digits."""

from __future__ import annotations

import pytest

from efc.errors import EFCError
from efc.streams import load


def test_digits() -> None:
    data = load("digits")
    assert data.x_train.shape == (1437, 64)
    assert data.x_test.shape == (360, 64)
    assert 0 <= data.x_train.min() < data.x_train.max() <= 1
    with pytest.raises(EFCError, match=r"unknown value 'digit'.*'digits'"):
        load("digit")
