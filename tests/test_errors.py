"""A mistake is told with what would have been right."""

from __future__ import annotations

import pytest

from efc.errors import EFCError, LinesError, choose, suggest

NAMES = ("newton", "anderson", "fixed_point")


def test_what_is_allowed_comes_back() -> None:
    assert choose("solver", "anderson", iter(NAMES)) == "anderson"


def test_what_is_not_is_told_with_all_that_is() -> None:
    with pytest.raises(EFCError) as near:
        choose("solver", "newtn", iter(NAMES))
    said = "solver: unknown value 'newtn' (did you mean 'newton'?); choose one of newton, anderson, fixed_point"
    assert str(near.value) == said
    with pytest.raises(EFCError) as far:
        choose("solver", "xyz", NAMES)
    assert str(far.value) == "solver: unknown value 'xyz'; choose one of newton, anderson, fixed_point"


def test_swapped_letters_go_before_other_near_misses() -> None:
    assert suggest("minst", ["mint", "mnist"]) == " (did you mean 'mnist'?)"
    assert suggest("minst", ["mint"]) == " (did you mean 'mint'?)"
    assert suggest(3, ["mint"]) == ""


def test_lines_stay_lines_and_what_they_name_does_not_break_them() -> None:
    assert str(LinesError("no source.", "  - a\nb\x1b[31m")) == "no source.\n  - a\\nb\\x1b[31m"


def test_it_is_a_value_error() -> None:
    """So that a caller from Python can catch it without knowing this library."""
    assert issubclass(EFCError, ValueError)
