"""Encoders by name, and names that are refused."""

from __future__ import annotations

import pytest

from efc.encoders import load_encoder
from efc.errors import EFCError


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("resnet18", "weights: None, but encoder 'resnet18' needs its checkpoint"),
        ("none", "encoder: 'none' has no network to load"),
        ("resnet-18", r"encoder: unknown value 'resnet-18' \(did you mean 'resnet18'\?\)"),
    ],
)
def test_what_cannot_be_loaded_is_refused(name: str, message: str) -> None:
    with pytest.raises(EFCError, match=message):
        load_encoder(name)
