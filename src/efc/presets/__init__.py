"""Shipped hyper-parameters, one YAML file per data set, chosen on a validation split by the command in its head."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources

import yaml

from efc.files import Json

SAFE = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The one in C takes a tenth of the time, which every command spends; not every build of yaml has it."""


@cache
def _load(dataset: str) -> dict[str, Json]:
    if ":" in dataset:  # someone's own data
        return {}
    file = resources.files(__name__) / f"{dataset}.yaml"
    return dict(yaml.load(file.read_text(encoding="utf-8"), SAFE)) if file.is_file() else {}


def training_preset(name: str) -> dict[str, Json]:
    """Epochs, batch size and hidden layers for a data set, or for a data set with an encoder, ``DATASET-ENCODER``."""
    return _below(_load(name), "training")


def find_preset(
    dataset: str, scenario: str, method: str, head: str, file: Mapping[str, object] | None = None
) -> dict[str, Json]:
    """A method's options for a data set, scenario and head policy; empty where nothing was chosen (defaults apply).

    ``file``, the content of someone's own preset file, goes before the shipped one. What a file or an entry
    ``assumes`` are the options that its search was given, where they are not the defaults.
    """
    for presets in (file or {}, _load(dataset)):
        chosen = _below(presets, scenario, method, head)
        if chosen:
            return _below(presets, "assumes") | _below(chosen, "assumes") | _below(chosen, "options")
    return {}


def _below(document: Mapping[str, object], *path: str) -> dict[str, Json]:
    """The mapping at a place of a document; empty where there is none."""
    found: object = document
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return dict(found) if isinstance(found, Mapping) else {}


FALLBACK = {"compensated": "analytic", "input_compensated": "compensated", "gaussian": "input_compensated"}
"""Head policies that refine another one: where nothing was chosen for them, they take what was chosen for it."""


def fitting_preset(
    dataset: str, scenario: str, method: str, head: str, file: Mapping[str, object] | None = None
) -> dict[str, Json]:
    """The same; where nothing was chosen for a head that refines another, what was for that one."""
    found = find_preset(dataset, scenario, method, head, file)
    if found or head not in FALLBACK:
        return found
    return fitting_preset(dataset, scenario, method, FALLBACK[head], file)
