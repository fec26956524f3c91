"""What requests may bring."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import numpy as np
import pytest

from efc.errors import EFCError
from efc.serve.samples import (
    LARGE,
    LARGEST,
    Limits,
    Reader,
    _no_number,
    check_kind,
    inputs_of,
    label_of,
    labels_of,
    parsed,
)


def test_inputs_come_as_they_were_written() -> None:
    body = parsed(b'{"inputs": [[1, 0.1, -2e3], [3, 4, 5]], "labels": [1, 2.0]}')
    x = inputs_of(body, 3, Limits())
    assert x.dtype == np.float64
    assert x.tolist() == [[1.0, 0.1, -2000.0], [3.0, 4.0, 5.0]]
    assert labels_of(body, 2) == [1, 2]
    assert inputs_of({"input": [1, 2, 3]}, 3, Limits()).tolist() == [[1.0, 2.0, 3.0]]
    assert labels_of({"input": [1, 2, 3], "label": "cat"}, 1) == ["cat"]


@pytest.mark.parametrize(
    ("body", "names"),
    [
        (b"", "JSON"), (b"{", "JSON"), (b"[1]", "object"), (b"3", "object"), (b"\xff{}", "JSON"),
        (b'{"inputs": [[NaN, 1]]}', "NaN"), (b'{"inputs": [[Infinity, 1]]}', "Infinity"),
        (b"[" * 100_000, "nested"), (b'{"x": ' + b"9" * 5000 + b"}", "JSON"),
    ],
)  # fmt: skip
def test_a_body_that_is_no_json_object_is_one_sentence(body: bytes, names: str) -> None:
    with pytest.raises(EFCError, match=names) as told:
        parsed(body)
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 300


def texts(rng: random.Random, n: int) -> Iterator[str]:
    """JSON of all kinds, one in two with a few characters changed."""
    leaves = (0, -1.5, 1e300, 2**70, "a", "\u00e4\ud800", "", True, None, [], {}, [[]], [1, 2], [[1, [2]], 3])
    for _ in range(n):
        matrix = [[rng.choice((0, 1.5, -2e-7)) for _ in range(3)] for _ in range(rng.randrange(4))]
        names = rng.choices(("inputs", "labels", "", "\u00fc", "a"), k=rng.randrange(4))
        whole = {name: rng.choice((matrix, matrix, *leaves)) for name in names}
        text = json.dumps(rng.choice((whole, whole, matrix, *leaves)), indent=rng.choice((None, None, 1)))
        if rng.random() < 0.5:
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice((" ", "", ",", "]", "}", "{", "[", '"', "NaN", "1", ":")) + text[at + 1 :]
        yield text


def test_long_bodies_are_read_as_short_ones_are() -> None:
    """Against json itself: the same documents, and the same are refused."""
    refused = 0
    for text in texts(random.Random(5), 4000):
        try:
            expected = json.loads(text, parse_constant=_no_number)
        except ValueError:
            refused += 1
            with pytest.raises(ValueError, match=r"."):
                Reader(text).document()
        else:
            assert Reader(text).document() == expected, text
    assert 400 < refused < 2500
    long = b'{"inputs": [[' + b"0, " * LARGE + b'1]], "labels": [1]}'
    assert parsed(long) == json.loads(long)
    for bad, names in ((long[:-1], "JSON"), (long + b"x", "JSON"), (b" " * LARGE + b"[1]", "object")):
        with pytest.raises(EFCError, match=names):
            parsed(bad)
    with pytest.raises(EFCError, match="nested"):
        parsed(b'{"a": ' * LARGE)


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({}, "inputs"), ({"inputs": [[1, 2]], "input": [1, 2]}, "either"), ({"inputs": []}, "list of samples"),
        ({"inputs": 3}, "list of samples"), ({"inputs": [[1]]}, "2 numbers, got 1 numbers"), ({"inputs": [3]}, "got 3"),
        ({"inputs": [[1, "2"]]}, "'2'"), ({"inputs": [[1, True]]}, "True"), ({"inputs": [[1, None]]}, "None"),
        ({"inputs": [[1, [2]]]}, "numbers"), ({"inputs": [[1, 1e16]]}, "1e"), ({"inputs": [[1, 10**400]]}, "numbers"),
        ({"inputs": [[1, 2], [3, -1e16]]}, "got -1e"),

        ({"inputs": [[1, float("inf")]]}, "inf"), ({"inputs": [[1, float("nan")]]}, "nan"),
        ({"inputs": [[1, 2]] * 4}, "at most 3"), ({"input": 5}, "got 5"),
    ],
)  # fmt: skip
def test_inputs_that_are_none_are_named(body: dict[str, object], names: str) -> None:
    with pytest.raises(EFCError, match=names):
        inputs_of(body, 2, Limits(samples=3))


@pytest.mark.parametrize(
    "label", [True, None, 1.5, "", " a", "a ", "a\0b", "a\nb", "\ud800", "\u202ea", "x" * 101, [1], {}, 2**60, 1e300]
)
def test_labels_that_are_none_are_refused(label: object) -> None:
    with pytest.raises(EFCError, match="labels"):
        label_of(label)


def test_labels_of_two_kinds_do_not_go_together() -> None:
    with pytest.raises(EFCError, match="numbers, got 'b'"):
        labels_of({"inputs": [[1], [2]], "labels": [1, "b"]}, 2)
    with pytest.raises(EFCError, match="texts, got 1"):
        check_kind([1], "a")
    check_kind(["ü", "日本"], "a")


def test_labels_and_inputs_are_as_many_and_go_together() -> None:
    for body in ({"labels": [1]}, {"labels": 3}, {}, {"labels": [1, 2], "label": 1}, {"label": 1}):
        with pytest.raises(EFCError, match="labels"):
            labels_of({"inputs": [[1], [2]], **body}, 2)


def test_the_largest_number_is_still_taken() -> None:
    assert inputs_of({"input": [LARGEST, -LARGEST]}, 2, Limits()).tolist() == [[LARGEST, -LARGEST]]
    assert label_of(json.loads(str(2**53))) == 2**53
