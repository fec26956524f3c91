"""What the shell offers on TAB for the values of options: one name, or the last of several with commas."""

from __future__ import annotations

from collections.abc import Callable, Iterable

Completer = Callable[[str], list[str]]


def one_of(names: Iterable[str]) -> Completer:
    """For an option that takes one of these."""
    allowed = list(names)

    def complete(incomplete: str) -> list[str]:
        return [name for name in allowed if name.startswith(incomplete)]

    return complete


def several_of(names: Iterable[str]) -> Completer:
    """For an option that takes several, with commas: what was typed before stays, none is offered twice."""
    allowed = list(names)

    def complete(incomplete: str) -> list[str]:
        before, comma, begun = incomplete.rpartition(",")
        taken = before.split(",")
        return [f"{before}{comma}{name}" for name in allowed if name.startswith(begun) and name not in taken]

    return complete
