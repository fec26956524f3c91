"""Reading records that someone may have damaged: each value is what it should be, or one sentence says what is wrong.

All of these raise ``ValueError``; numbers that are not finite, or that cannot be, are damage too.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np

from efc.errors import EFCError
from efc.files import to_json
from efc.metrics import sample_accuracy

T = TypeVar("T")
DAMAGE = (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError, OverflowError)
"""What reading a damaged document may raise."""


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def parse(content: bytes) -> object:
    """JSON in UTF-8, as strict as what we write."""
    try:
        return json.loads(content.decode("utf-8"), parse_constant=_refuse)
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as problem:
        raise ValueError(f"it is not JSON ({problem})") from None


def _refuse(word: str) -> object:
    raise ValueError(f"{word} is no number")


_MARK = ',\n "checksum": "'
_ANNOUNCED = "sealed"
SEALS = (_ANNOUNCED, "checksum")
"""What a checksum adds to a document."""


def seal(document: Mapping[str, object]) -> str:
    """JSON whose last entry is the checksum of all before it, which its first one announces."""
    body = to_json({_ANNOUNCED: True, **document})
    return f'{body[:-2]}{_MARK}{sha256(body.encode())}"\n}}'


def sealed(content: bytes, document: Mapping[str, object]) -> bool:
    """Whether a document has a checksum; one that is wrong, or missing where announced, raises ``ValueError``."""
    if "checksum" not in document:
        if _ANNOUNCED in document:
            raise ValueError("its checksum is missing")
        return False
    body, _, rest = content.decode().rpartition(_MARK)
    if rest != sha256((body + "\n}").encode()) + '"\n}':
        raise ValueError("its checksum is wrong")
    return True


def read(file: Path, argument: str, make: Callable[[Mapping[str, object]], T], what: str) -> T:
    """What ``make`` makes of a JSON file that must be there; ``what`` it should hold is named where it does not."""
    try:
        content = file.read_bytes()
        document = mapping(parse(content))
        sealed(content, document)
        return make(document)
    except OSError as problem:
        raise EFCError(f"{argument}: cannot read {file}: {problem.strerror}") from None
    except DAMAGE as problem:
        told = f"{problem.args[0]!r} is missing" if isinstance(problem, KeyError) else problem
        raise EFCError(f"{argument}: {file} holds no {what}: {told}") from None


def mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ValueError(f"expected names with values, got {_brief(value)}")
    return value


def text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected a text, got {_brief(value)}")
    return value


def flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"expected true or false, got {_brief(value)}")
    return value


def whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"expected a whole number, got {_brief(value)}")
    return value


def number(value: object, low: float = -math.inf, high: float = math.inf) -> float:
    """A finite number between ``low`` and ``high``."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"expected a finite number, got {_brief(value)}")
    if not low <= value <= high:
        raise ValueError(f"{value:g} is impossible where {low:g} to {high:g} can be")
    return value


def maybe(value: object, make: Callable[[object], T]) -> T | None:
    return None if value is None else make(value)


def listed(value: object, make: Callable[[object], T]) -> list[T]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"expected a list, got {_brief(value)}")
    return [make(entry) for entry in value]


def numbers(value: object, low: float = -math.inf, high: float = math.inf) -> list[float]:
    return listed(value, lambda entry: number(entry, low, high))


def matrix(value: object, size: int, low: float, high: float) -> list[list[float | None]]:
    """``size`` lists of as many numbers, None where there is none; large ones are read often, so in a few calls."""
    if not isinstance(value, list) or len(value) != size:
        raise ValueError(f"expected {size} lists of {size} numbers, got {_brief(value)}")
    for line in value:
        if not isinstance(line, list) or len(line) != size or not set(map(type, line)) <= {int, float, type(None)}:
            raise ValueError(f"expected a list of {size} numbers, got {_brief(line)}")
        found = [entry for entry in line if entry is not None]
        if not all(map(math.isfinite, found)) or (found and not low <= min(found) <= max(found) <= high):
            raise ValueError(f"expected finite numbers from {low:g} to {high:g}, got {_brief(line)}")
    return value


def counts(value: object) -> list[list[int]]:
    """A square table of whole numbers, none of them negative."""
    found = matrix(value, len(value) if isinstance(value, list) else 0, 0, math.inf)
    if not all(set(map(type, line)) <= {int} for line in found):
        raise ValueError(f"expected counts, got {_brief(value)}")
    return found  # type: ignore[return-value]


def _brief(value: object) -> str:
    shown = repr(value) if isinstance(value, str | int | float | None) else type(value).__name__
    return shown if len(shown) <= 40 else shown[:37] + "..."


def over_samples(confusion: list[list[int]]) -> float:
    """The accuracy over samples of a run whose record, of an early version, does not have it."""
    return float(sample_accuracy(np.array(confusion, dtype=float)))
