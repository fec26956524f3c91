"""Errors a user can cause and mend. Each carries one sentence that names the argument, the value and the remedy."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class EFCError(ValueError):
    """A user's mistake. The command line prints its message alone and exits with code 2."""


class EFCWarning(UserWarning):
    """Something went on that looks wrong; the sentence says what helps."""


def choose(argument: str, value: str, allowed: Iterable[str]) -> str:
    """Return ``value`` if it is one of ``allowed``; otherwise say which are, with the nearest one first."""
    names = list(allowed)
    if value in names:
        return value
    raise EFCError(f"{argument}: unknown value {value!r}{suggest(value, names)}; choose one of {', '.join(names)}")


def suggest(value: object, names: Iterable[str]) -> str:
    """`` (did you mean 'x'?)`` for a near miss, an empty string otherwise."""
    close = get_close_matches(str(value), list(names), n=3)
    swapped = [name for name in close if sorted(name) == sorted(str(value))]
    return f" (did you mean {(swapped or close)[0]!r}?)" if close else ""
