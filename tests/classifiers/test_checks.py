"""A state from outside: what cannot be one is refused before anything is made of it."""

from __future__ import annotations

import pytest
import torch

from efc.classifiers import checks
from efc.classifiers.checks import check_shapes, check_size, check_state
from efc.classifiers.growing import Growing
from efc.classifiers.setup import Setup
from efc.errors import EFCError
from efc.learners import LEARNERS
from efc.learners.readout import TRIED


def growing(method: str, head: str | None = None) -> Growing:
    found = Growing(Setup(12, (48,), method, head, epochs=1))
    x = torch.randn(20, 12, generator=torch.Generator().manual_seed(0))
    found.learn(x, torch.arange(20) % 2)
    return found


@pytest.mark.parametrize("method", LEARNERS)
def test_what_is_stored_accounts_for_what_is_made(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For all methods and heads, by a wide margin."""
    monkeypatch.setattr(checks, "ROOM", 0)
    monkeypatch.setattr(checks, "TIMES", checks.TIMES / 4)
    for head in LEARNERS[method].heads:
        found = growing(method, head)
        assert torch.equal(Growing.restored(found.setup, found.state_dict()).learner.theta, found.learner.theta)


@pytest.mark.parametrize(
    ("method", "head", "sizes", "options"),
    [
        ("sgd", "random", (10, 10**12, 2), {}),
        ("sgd", "random", (10**13, 2), {}),
        ("sgd", "analytic", (10, 10**6, 2), {}),
        ("sgd", "input_compensated", (2048, 10**6, 1), {}),
        ("efc", "random", (10**6, 1, 2), {}),
        ("efc", "random", (10**6, 1, 2), {"step": "natural", "rank": 10**5}),
        ("efc", "random", (1, 10**5, 1, 10**5), {"feedback": "learned", "pull": 0}),
        ("der", "random", (10, 10, 2), {"buffer": 10**10}),
        ("analytic", None, (10**6, 1, 2), {}),
    ],
)
def test_sizes_that_would_take_gigabytes(
    method: str, head: str | None, sizes: tuple[int, ...], options: dict[str, object]
) -> None:
    learner = LEARNERS[method]
    with pytest.raises(EFCError, match=r"^state: a network of the sizes \(.*\) would take [\d.e+]+ GiB, and what is"):
        check_size(learner, sizes, head, learner.options_type.from_mapping(options), stored=4 * 10**6)
    assert check_size(LEARNERS["analytic"], (5, 10**12, 2), None, LEARNERS["analytic"].options_type(), 10) is None


def test_numbers_that_are_none() -> None:
    state = growing("sgd").state_dict()
    check_state(state, own_code=False)
    for key, value in state.items():
        if value.is_floating_point() and value.numel():
            for bad in (float("nan"), float("inf")):
                wrong = value.clone()
                wrong.view(-1)[-1] = bad
                with pytest.raises(EFCError, match=f"^state: {key} holds NaN or infinite numbers$"):
                    check_state(state | {key: wrong}, own_code=False)
    infinite = {"learner.own": torch.tensor(float("inf"))}
    check_state(state | infinite, own_code=True)
    with pytest.raises(EFCError, match=r"learner\.theta holds NaN"):
        check_state(state | {"learner.theta": state["learner.theta"] * float("nan")}, own_code=True)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"tasks": torch.ones(2)}, "does not say which outputs"),
        ({"tasks": torch.zeros(1, 2, dtype=torch.bool)}, "does not say which outputs"),
        ({"tasks": torch.zeros(0, 10**12, dtype=torch.bool)}, "does not say which outputs"),
        ({"tasks": torch.ones(1, 3, dtype=torch.bool)}, r"counts is \(2,\), expected \(3,\)"),
        ({"counts": torch.tensor([2**62, 2**62])}, "counts are no numbers of samples"),
        ({"counts": torch.tensor([-1, 3])}, "counts holds negative numbers"),
        ({"misfit": -torch.ones(TRIED, dtype=torch.float64)}, "misfit holds negative numbers"),
        ({"misfit": torch.zeros(2, dtype=torch.float64)}, r"misfit is \(2,\), expected"),
        ({"unit": torch.zeros(1, dtype=torch.float64)}, "unit must be above 0"),
        ({"unit": torch.full((1,), 1e300, dtype=torch.float64)}, "unit must be above 0"),
        ({"learner.theta": torch.zeros(1, 2, dtype=torch.complex64)}, "of the kind torch.complex64"),
    ],
)
def test_states_that_contradict_themselves(changed: dict[str, torch.Tensor], says: str) -> None:
    with pytest.raises(EFCError, match=f"^state: .*{says}"):
        check_state(growing("sgd").state_dict() | changed, own_code=False)


def test_shapes_are_those_of_a_fresh_learner_but_for_what_grows() -> None:
    fresh = {"a": torch.zeros(2, 3), "b": torch.zeros(1, 0, 2), "c": torch.zeros(0), "n": torch.tensor(0)}
    grown = {"b": torch.zeros(1, 7, 2), "c": torch.zeros(7)}
    check_shapes(fresh, fresh)
    check_shapes(fresh, fresh | grown)
    check_shapes(fresh, {"a": fresh["a"].double(), "more": torch.zeros(1)})
    for wrong in (
        {"a": torch.zeros(3, 2)}, {"a": torch.zeros(6)}, {"n": torch.tensor(0.0)}, {"b": torch.zeros(1, 7, 3)},
        {"a": torch.zeros(2, 3, dtype=torch.long)}, {**grown, "c": torch.zeros(8)},
    ):  # fmt: skip
        with pytest.raises(EFCError, match=r"^state: .*(expected|different lengths)"):
            check_shapes(fresh, fresh | wrong)
