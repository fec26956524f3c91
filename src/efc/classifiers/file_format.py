"""A fitted estimator as one safetensors file: its tensors, and a JSON description among the file's metadata."""

from __future__ import annotations

import hashlib
import json
import numbers
import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load, save
from torch import Tensor

from efc.errors import EFCError
from efc.files import Json, write_atomically
from efc.plugins import name_of

KEY, SUM = "efc_estimator", "efc_sha256"
"""Where in the metadata the description is, and a checksum of it and of the tensors."""
FORMAT = 1
LONGEST = 1000
"""Characters that room may be left for in texts that are shorter."""


def write(path: Path, state: Mapping[str, Tensor], about: Mapping[str, object]) -> None:
    """The file is there whole or, if something goes wrong, as it was before."""
    text = json.dumps({"format": FORMAT, **about}, default=plain)
    write_atomically(path, save(dict(state), metadata={KEY: text, SUM: checksum(text, state)}))


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and description; files of early versions have no checksum."""
    if path.exists() and not path.is_file():
        raise EFCError(f"cannot read {path}: it is not a file")
    try:
        data = path.read_bytes()  # not mapped: a file that somebody writes to meanwhile must not change what was read
        state = load(data)
        metadata = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]).get("__metadata__") or {}
    except OSError as problem:
        raise EFCError(f"cannot read {path}: {problem.strerror}") from None
    except Exception as problem:  # what is raised depends on which bytes it stumbles over
        raise EFCError(f"cannot read {path}: {shorten(str(problem), 300)}") from None
    if KEY not in metadata:
        raise EFCError(f"{path}: this safetensors file holds no estimator")
    if metadata.get(SUM, "") not in ("", checksum(metadata[KEY], state)):
        raise EFCError(f"{path}: the file is damaged, its checksum is another one than when it was saved")
    try:
        about = json.loads(metadata[KEY])
    except (ValueError, RecursionError) as problem:
        raise EFCError(f"{path}: its description is not JSON: {problem}") from None
    if not isinstance(about, dict) or "format" not in about:
        raise EFCError(f"{path}: its description does not say in which format it is written")
    if about["format"] != FORMAT:
        raise EFCError(f"{path}: written in format {_brief(about['format'])}, this version of efc reads {FORMAT}")
    return state, about


def checksum(text: str, state: Mapping[str, Tensor]) -> str:
    """Of a description and tensors; it finds damage, and is no signature."""
    total = hashlib.sha256(text.encode())
    for key, value in sorted(state.items()):
        total.update(f"{key} {value.dtype} {tuple(value.shape)}".encode())
        total.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


@dataclass(frozen=True)
class Description:
    """What a file says of its estimator, checked."""

    estimator: str
    parameters: dict[str, Any]
    n_features: int
    seed: int
    classes: NDArray[Any]
    met: NDArray[Any]
    """Those of the outputs, in their order."""
    feature_names: list[str]

    @classmethod
    def of(cls, about: Mapping[str, Any]) -> Description:
        missing = [key for key in cls.__dataclass_fields__ if key not in about]
        if missing:
            raise EFCError(f"the description lacks {', '.join(missing)}")
        parameters, names = about["parameters"], about["feature_names"]
        if not isinstance(about["estimator"], str):
            raise EFCError(f"estimator: expected its name, got {_brief(about['estimator'])}")
        if not isinstance(parameters, dict) or not isinstance(parameters.get("options") or {}, dict):
            raise EFCError(f"parameters: expected named values, got {_brief(parameters)}")
        n_features = _whole("n_features", about["n_features"], 1)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise EFCError(f"feature_names: expected texts, got {_brief(names)}")
        if len(names) not in (0, n_features):
            raise EFCError(f"feature_names: there are {len(names)} for {n_features} features")
        classes, met = (restore_labels(about[key], key) for key in ("classes", "met"))
        values = classes.tolist()
        if any(isinstance(a, str) != isinstance(b, str) or not a < b for a, b in pairwise(values)):
            raise EFCError("classes: they are not sorted, each once")
        if len(set(met.tolist())) != len(met) or not {*met.tolist()} <= {*values}:
            raise EFCError("met: expected some of the classes, each once")
        seed = _whole("seed", about["seed"], 0, np.iinfo(np.int32).max)
        return cls(about["estimator"], parameters, n_features, seed, classes, met, names)


def as_it_began(parameters: Mapping[str, Any], state: Mapping[str, Tensor]) -> dict[str, Any]:
    """A file of version 0.1 says nothing of what came later: its estimator goes on as it began."""
    found, before = dict(parameters), dict[str, object]()
    if "standardise" not in parameters:
        before = {"drift": "trusted", "skip": "off", "ridge": 1e-4}
        found["standardise"] = False
    if "learner.head.A" in state and "learner.head.mass" not in state:  # there was nothing else to choose from
        before["readout"] = "regression"
    return found | ({"options": before | (parameters.get("options") or {})} if before else {})


def _whole(name: str, value: object, least: int, most: int = 2**53) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise EFCError(f"{name}: expected a whole number from {least} to {most}, got {_brief(value)}")
    return value


def shorten(text: str, length: int) -> str:
    """One line, its end left out where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[:length]}..."


def _brief(value: object) -> str:
    return reprlib.repr(value)  # of anything, however long or deep


def plain(value: object) -> object:
    """What JSON has no word for: numpy's numbers and arrays, functions (by name), a random state (not needed again)."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, np.random.RandomState):
        return None  # the seed drawn from it is stored beside it
    if callable(value):
        return name_of(value)
    raise EFCError(f"save: a parameter of the kind {type(value).__name__} cannot be written to a file: {value!r}")


def describe_labels(labels: NDArray[Any]) -> dict[str, Json]:
    """Labels and their kind, so that they come back as they were."""
    values = labels.tolist()
    if not all(isinstance(value, str | numbers.Real) for value in values):
        raise EFCError(f"save: only numbers and texts can be saved as labels, got {values[:3]!r}")
    return {"dtype": labels.dtype.str if labels.dtype.kind in "biufU" else "O", "values": values}


def restore_labels(about: object, name: str = "labels") -> NDArray[Any]:
    """The same labels; texts and numbers, of a kind and length that they have."""
    values, kind = (about.get("values"), about.get("dtype")) if isinstance(about, Mapping) else (None, None)
    if not isinstance(values, list) or not all(isinstance(value, str | int | float) for value in values):
        raise EFCError(f"{name}: expected a list of numbers or texts, got {_brief(values)}")
    length = re.fullmatch(r"[<>=|]?U(\d+)", str(kind))
    longest = max((len(value) for value in values if isinstance(value, str)), default=0)
    if kind != "O" and not re.fullmatch(r"[<>=|]?[biufU]\d{1,9}", str(kind)):
        raise EFCError(f"{name}: {_brief(kind)} is no kind of label")
    if length and int(length[1]) > max(longest, LONGEST):
        raise EFCError(f"{name}: {_brief(kind)} is too long for texts of at most {longest} characters")
    try:
        found = np.array(values, dtype=np.dtype(str(kind)))
    except (TypeError, ValueError, OverflowError):
        found = np.array([])
    if found.tolist() != values:
        raise EFCError(f"{name}: {_brief(values)} are not of the kind {_brief(kind)}")
    return found
