"""Model files that are wrong in every way one can think of, and what becomes of them."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

from efc import ContinualClassifier, EFCClassifier
from efc.classifiers.file_format import KEY, read, write
from efc.errors import EFCError
from support.mutate import mutations
from support.planted import NAMES

QUICK: dict[str, Any] = {"hidden_layer_sizes": (5, 3), "epochs": 1, "random_state": 0}
ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 2**31, 2**53, 2**63, 10**30, 10**400, 0.5, -0.0, 1e308, float("nan"),
    float("inf"), "", "a", "é\ud800", "x" * 5000, [], [[]], [0], [10**12], [1, 1], ["a", 1], {}, {"a": 1}, {"": {}},
    "O", "|V8", "<U999999999", "<U0", "<M8[s]", "<f8", ">i2", "cuda", "meta", "analytic", "efc", "learned", "joint",
    *NAMES,
)  # fmt: skip
"""What may stand anywhere in a description."""


def samples(classes: list[int], seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    y = np.repeat(classes, 8)
    return rng.normal(size=(len(y), 4)) + y[:, None], y


def genuine(folder: Path) -> list[tuple[type, Path]]:
    """Files of classifiers of all kinds, each with what it is loaded by."""
    made = [
        EFCClassifier(**QUICK),
        EFCClassifier(**QUICK, standardise=False, options={"skip": "off", "feedback": "learned"}),
        ContinualClassifier("derpp", **QUICK, options={"buffer": 6}),
        ContinualClassifier("joint", **QUICK, head="random", class_weight="balanced"),
        ContinualClassifier("full_fisher", **QUICK, head="analytic"),
        ContinualClassifier("analytic", **QUICK),
        EFCClassifier(**QUICK, mode="stream"),
        ContinualClassifier("slda", **QUICK, mode="stream"),
        ContinualClassifier("sgd", **QUICK, mode="stream"),
    ]
    names = np.array(["zero", "one", "two", "three"])
    found: list[tuple[type, Path]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k, classifier in enumerate(made):
            for classes in ([1, 2], [0, 2]):
                x, y = samples(classes)
                classifier.partial_fit(x, names[y] if k % 2 else y)
            file = folder / f"{k}.safetensors"
            classifier.save(file)
            found.append((type(classifier), file))
    return found


def outcome(kind: type, file: Path) -> str:
    """``refused`` in one sentence, or ``loaded`` with answers that are some; all else is an error."""
    x = np.random.default_rng(1).normal(size=(5, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            loaded = kind.load(file)  # type: ignore[attr-defined]
        except EFCError as mistake:
            said = str(mistake)
        else:
            said = ""
            x = np.resize(x, (5, loaded.n_features_in_))
            shares, answers, scores = loaded.predict_proba(x), loaded.predict(x), loaded.decision_function(x)
    if said:
        assert "\n" not in said
        assert len(said) < 1000, said
        return "refused"
    assert shares.shape == (5, len(loaded.classes_))
    assert np.isfinite(shares).all()
    assert np.allclose(shares.sum(1), 1)
    assert answers.shape == (5,)
    assert set(answers.tolist()) <= set(loaded.classes_.tolist())
    assert not np.isnan(scores).any()
    assert not np.isposinf(scores).any()
    return "loaded"


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where in a document something stands."""
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document if isinstance(document, list) else [])
    )
    return [path, *(place for key, value in inner for place in places(value, (*path, key)))]


def changed(about: dict[str, Any], place: tuple[Any, ...], value: Any) -> Any:
    """The document with another value at a place; without it, where the value is ``...``."""
    document = json.loads(json.dumps(about))
    if not place:
        return value
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return document


def unsigned(file: Path, state: Mapping[str, Tensor], text: str) -> None:
    """A file without a checksum, whatever the description."""
    file.write_bytes(save({key: value.contiguous() for key, value in state.items()}, metadata={KEY: text}))


def wrong_descriptions(file: Path, rng: Random) -> Iterator[None]:
    state, about = read(file)
    while True:
        document: Any = about
        for _ in range(rng.choice((1, 1, 2, 3))):
            value = rng.choice((..., *ODD))
            place = rng.choice(places(document)[1:] or [()])
            document = changed(document, place, value) if place else value
            if not isinstance(document, dict | list):
                break
        unsigned(file, state, json.dumps(document, default=str))
        yield


def wrong_tensors(file: Path, rng: Random) -> Iterator[None]:
    state, about = read(file)
    keys = sorted(state)
    del about["format"]
    changes: list[Callable[[Tensor], Tensor]] = [
        lambda t: t[..., :-1] if t.dim() and t.shape[-1] else t,
        lambda t: t[None],
        lambda t: t.double(),
        lambda t: t.to(torch.bfloat16),
        lambda t: t.long() if torch.isfinite(t.double()).all() else t,
        lambda t: t * float("nan"),
        lambda t: t.double() * 1e300,
        lambda t: t * 1e38,
        lambda t: -t.double() - 1,
        lambda t: t.new_zeros(0),
        lambda t: t.new_zeros(0, 10**12),
        lambda t: torch.randn(t.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(rng.randrange(99))),
        lambda t: t.repeat(2, *[1] * (t.dim() - 1)) if t.dim() else t,
    ]
    while True:
        tensors = dict(state)
        for _ in range(rng.choice((1, 1, 2))):
            key, other = rng.choice(keys), rng.choice(keys)
            kind = rng.randrange(len(changes) + 3)
            if kind < len(changes):
                tensors[key] = changes[kind](tensors.get(key, state[key]))
            elif kind == len(changes):
                tensors.pop(key, None)
            elif kind == len(changes) + 1:
                tensors["learner.further"] = state[other]
            else:
                tensors[key], tensors[other] = state[other].clone(), state[key].clone()
        write(file, {key: value.clone().contiguous() for key, value in tensors.items()}, about)
        yield


def wrong_bytes(file: Path, rng: Random, checksum: bool) -> Iterator[None]:
    if not checksum:
        state, about = read(file)
        unsigned(file, state, json.dumps(about))
    data = file.read_bytes()
    while True:
        for damaged in mutations(data, rng, 1):
            file.write_bytes(damaged)
        yield


def fuzz(folder: Path, n: int, seed: int = 0) -> Counter[str]:
    """Load ``n`` wrong files; how many of each kind were refused and loaded. Any other outcome is raised."""
    rng, counts = Random(seed), Counter[str]()
    kinds: dict[str, Callable[[Path], Iterator[None]]] = {
        "bytes": lambda file: wrong_bytes(file, rng, checksum=True),
        "bytes without a checksum": lambda file: wrong_bytes(file, rng, checksum=False),
        "description": lambda file: wrong_descriptions(file, rng),
        "tensors": lambda file: wrong_tensors(file, rng),
    }
    sources = []
    for name, kind in kinds.items():
        place = folder / name
        place.mkdir()
        sources += [(name, cls, file, kind(file)) for cls, file in genuine(place)]
    for k in range(n):
        name, cls, file, source = sources[k % len(sources)]
        next(source)
        try:
            counts[f"{name}: {outcome(cls, file)}"] += 1
        except BaseException:
            (folder / "failed").write_bytes(file.read_bytes())
            raise
    return counts
