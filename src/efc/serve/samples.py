"""What a request may bring: inputs and labels, looked at before anything is done with them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from efc.errors import EFCError, shown

Label: TypeAlias = int | str
Inputs: TypeAlias = NDArray[np.float64]
Document: TypeAlias = Mapping[str, Any]
"""JSON whose parts are looked at one by one."""

LARGE = 64 * 1024
"""Bytes of a body from which on reading it takes a while."""
LARGEST = 1e15
"""Inputs beyond this are no measurements, and their squares would drown all others."""
LONGEST = 100
"""Characters of a label."""
WHOLE = 2**53
"""Whole numbers up to this are the same in JSON, in JavaScript and here."""


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


_JSON = json.JSONDecoder(parse_constant=_no_number)
_BLANKS, _MATRIX = re.compile(r"[ \t\n\r]*"), re.compile(r"[ \t\n\r]*\[[ \t\n\r]*\[")
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True)
class Limits:
    """How much one request, and one model, may hold."""

    body: int = 4 * 2**20
    samples: int = 1000
    classes: int = 1000


def parsed(body: bytes) -> Mapping[str, object]:
    """The object in a request's body."""
    try:
        text = body.decode(json.detect_encoding(body), "surrogatepass")
        found = Reader(text).document() if len(body) > LARGE else _JSON.decode(text)
    except RecursionError:
        raise EFCError("body: the JSON is nested too deeply") from None
    except ValueError as problem:  # bytes that are no text among them
        raise EFCError(f"body: this is not JSON: {shown(str(problem))}") from None
    if not isinstance(found, dict):
        raise EFCError(f"body: expected a JSON object such as {{'inputs': [[...]]}}, got {shown(found)}")
    return found


class Reader:
    """Reads an object as ``json`` does, but a matrix row by row: no other thread has to wait for the end of it."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def document(self) -> object:
        """All of the text."""
        if self._sign() != "{":
            return _JSON.decode(self.text)
        found: dict[str, object] = {}
        for _ in self._entries("}"):
            name = self._value()
            if not isinstance(name, str) or self._sign() != ":":
                raise json.JSONDecodeError("Expecting a name in double quotes and ':'", self.text, self.at)
            self.at += 1
            found[name] = self._matrix() if _MATRIX.match(self.text, self.at) else self._value()
        if self._sign():
            raise json.JSONDecodeError("Extra data", self.text, self.at)
        return found

    def _matrix(self) -> list[object]:
        self._sign()
        return [self._value() for _ in self._entries("]")]

    def _entries(self, end: str) -> Iterator[None]:
        """Between two signs that have commas between them; whoever asks for the next has read one."""
        self.at += 1
        if self._sign() == end:
            self.at += 1
            return
        while True:
            yield
            sign, self.at = self._sign(), self.at + 1
            if sign == end:
                return
            if sign != ",":
                raise json.JSONDecodeError("Expecting ',' delimiter", self.text, self.at - 1)

    def _sign(self) -> str:
        """The next one that is no blank; nothing at the end."""
        self.at = _BLANKS.match(self.text, self.at).end()  # type: ignore[union-attr]
        return self.text[self.at : self.at + 1]

    def _value(self) -> object:
        self._sign()
        found, self.at = _JSON.raw_decode(self.text, self.at)
        return found


def inputs_of(body: Mapping[str, object], features: int, limits: Limits) -> Inputs:
    """(N, features) of ``inputs``, or of the one ``input``."""
    if ("inputs" in body) == ("input" in body):
        raise EFCError("inputs: expected either 'inputs', a list of samples, or 'input', a single one")
    rows = body["inputs"] if "inputs" in body else [body["input"]]
    if not isinstance(rows, list) or not rows:
        raise EFCError(f"inputs: expected a list of samples, got {shown(rows)}")
    if len(rows) > limits.samples:
        raise EFCError(f"inputs: {len(rows)} samples are too many for one request; at most {limits.samples}")
    for row in rows:
        if not isinstance(row, list) or len(row) != features:
            told = f"{len(row)} numbers" if isinstance(row, list) else shown(row)
            raise EFCError(f"inputs: every sample must be a list of {features} numbers, got {told}")
    numbers = [value for row in rows for value in row]
    if {*map(type, numbers)} <= {int, float}:  # true is no number here
        with suppress(OverflowError):
            x = np.array(numbers, dtype=np.float64).reshape(len(rows), features)
            if bool((np.abs(x) <= LARGEST).all()):  # no comparison with NaN is true
                return x
    odd = next(value for value in numbers if type(value) not in (int, float) or not -LARGEST <= value <= LARGEST)
    raise EFCError(f"inputs: expected numbers of at most {LARGEST:g} in size, got {shown(odd)}")


def check_inputs(x: Inputs) -> None:
    """The same of an array."""
    if not x.size or not bool((np.abs(x) <= LARGEST).all()):  # no comparison with NaN is true
        raise EFCError(f"inputs: expected numbers of at most {LARGEST:g} in size")


def labels_of(body: Mapping[str, object], count: int) -> list[Label]:
    """As many labels as there are inputs: all texts or all whole numbers."""
    if ("labels" in body) == ("label" in body):
        raise EFCError("labels: expected either 'labels', a list, or 'label', a single one")
    if ("label" in body) != ("input" in body):
        raise EFCError("labels: 'label' goes with 'input', and 'labels' with 'inputs'")
    given = body["labels"] if "labels" in body else [body["label"]]
    if not isinstance(given, list) or len(given) != count:
        told = f"{len(given)}" if isinstance(given, list) else shown(given)
        raise EFCError(f"labels: expected a list of {count}, one for each sample, got {told}")
    found = [label_of(value) for value in given]
    check_kind(found, found[0])
    return found


def label_of(value: object) -> Label:
    """One label: a text, or a whole number, which may be written as 3.0."""
    if isinstance(value, str):
        if not 0 < len(value) <= LONGEST or _UNSEEN.search(value) or value != value.strip():
            told = f"1 to {LONGEST} characters that can be seen, without blanks around them"
            raise EFCError(f"labels: a text must have {told}, got {shown(value)}")
        return value
    whole = type(value) is int or (type(value) is float and math.isfinite(value) and value == int(value))
    if not whole or not -WHOLE <= int(value) <= WHOLE:  # type: ignore[call-overload]
        raise EFCError(f"labels: expected a text or a whole number, got {shown(value)}")
    return int(value)  # type: ignore[call-overload, no-any-return]


def check_kind(labels: Sequence[Label], first: Label) -> None:
    """Numbers and texts are not mixed: 1 and '1' would be two classes that look the same."""
    for label in labels:
        if isinstance(label, str) != isinstance(first, str):
            kind = "texts" if isinstance(first, str) else "numbers"
            raise EFCError(f"labels: the labels of this model are {kind}, got {shown(label)}")
