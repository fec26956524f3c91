"""Errors a user can cause and mend. Each carries one sentence that names the argument, the value and the remedy."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from reprlib import Repr

# What moves a terminal's cursor, names its window, ends a line or turns the direction of writing; and halves of
# characters, as they stand in names that are no UTF-8.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_BRIEF = Repr()
_BRIEF.maxstring = _BRIEF.maxother = _BRIEF.maxlong = 120


class EFCError(ValueError):
    """A user's mistake. The command line prints its message alone and exits with code 2."""


class LinesError(EFCError):
    """A sentence and what belongs to it, each on a line of its own: what was tried, or has to be done."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(visible(line, keep="") for line in lines))


class EFCWarning(UserWarning):
    """Something went on that looks wrong; the sentence says what helps."""


class MissingError(EFCError):
    """An optional package is not there."""

    def __init__(self, argument: str, package: str, extra: str) -> None:
        super().__init__(f"{argument}: {package} is missing; install it with: {install(extra)}")
        self.package, self.extra = package, extra


def install(extra: str = "") -> str:
    """The command that installs this package with an extra, in a clone and anywhere else."""
    return f"pip install 'equilibrium-fisher-control{f'[{extra}]' if extra else ''}'"


def choose(argument: str, value: str, allowed: Iterable[str]) -> str:
    """Return ``value`` if it is one of ``allowed``; otherwise say which are, with the nearest one first."""
    names = list(allowed)
    if value in names:
        return value
    raise EFCError(f"{argument}: unknown value {value!r}{suggest(value, names)}; choose one of {', '.join(names)}")


def shown(value: object) -> str:
    """A value as it was written, for a sentence: cut where it is long."""
    return _BRIEF.repr(value)


def suggest(value: object, names: Iterable[str]) -> str:
    """`` (did you mean 'x'?)`` for a near miss, an empty string otherwise."""
    close = get_close_matches(str(value), list(names), n=3)
    swapped = [name for name in close if sorted(name) == sorted(str(value))]
    return f" (did you mean {(swapped or close)[0]!r}?)" if close else ""


def visible(text: str, keep: str = "\n\t") -> str:
    """A text in which nothing can act on a terminal: a name's escape sequences are shown as ``\\x1b``."""

    def shown(found: re.Match[str]) -> str:
        return found[0] if found[0] in keep else found[0].encode("unicode_escape").decode()

    return _UNSEEN.sub(shown, text)
