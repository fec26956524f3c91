"""Searching for good settings on validation data: a Python API of which `efc sweep` is the command."""

from efc.search.samplers import SAMPLERS, Tried
from efc.search.space import Setting, Space, on_border, parse_axes
from efc.search.sweep import FIRST_SEED, Budget, UnfinishedError, spaces, sweep

__all__ = [
    "FIRST_SEED",
    "SAMPLERS",
    "Budget",
    "Setting",
    "Space",
    "Tried",
    "UnfinishedError",
    "on_border",
    "parse_axes",
    "spaces",
    "sweep",
]
