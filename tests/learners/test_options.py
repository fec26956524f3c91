"""Options: what is given counts, variants fill in the rest, and every option says itself what may be done with it."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass, fields, replace
from typing import Any

import pytest
import torch

from efc.errors import EFCError
from efc.learners import ABLATIONS, LEARNERS, EFCOptions, EFCPaperOptions, Options, number
from efc.learners.options import merged

DEFAULT = EFCOptions()


def test_a_variant_fills_in_what_the_constructor_is_not_given() -> None:
    assert EFCOptions(variant="reference").beta == 1.0
    assert EFCOptions(variant="reference", beta=10.0).beta == 10.0
    given = EFCOptions(variant="reference", beta=DEFAULT.beta, form=DEFAULT.form)  # given, though equal to the default
    assert (given.beta, given.form, given.head_rule) == (DEFAULT.beta, DEFAULT.form, "frozen")
    assert EFCOptions(0.5, variant="reference").lr == 0.5  # by position
    assert EFCOptions(variant="none") == DEFAULT


@pytest.mark.parametrize("name", ABLATIONS)
@pytest.mark.parametrize("cls", [EFCOptions, EFCPaperOptions])
def test_the_paths_to_a_variant_agree(cls: type[EFCOptions], name: str) -> None:
    made = cls(variant=name, kappa=0.2)
    assert made == cls.from_mapping({"variant": name, "kappa": 0.2})
    assert made == cls.from_mapping({"preset": name, "kappa": 0.2})  # the old key
    assert made == cls.from_mapping(cls.layered({"kappa": 7.0}, {"variant": name, "kappa": 0.2}))
    assert made == cls.from_mapping(made.to_mapping())
    assert "preset" not in made.to_mapping()


def test_a_changed_copy_keeps_everything_else() -> None:
    made = EFCOptions(variant="reference", beta=5.0)
    changed = replace(made, lr=0.5)
    assert changed.to_mapping() == made.to_mapping() | {"lr": 0.5}
    assert replace(made, beta=DEFAULT.beta).beta == DEFAULT.beta
    with pytest.raises(EFCError, match="beta: must be at least 0"):
        replace(made, beta=-1.0)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
def test_a_copy_is_the_same(again: Any) -> None:
    for made in (EFCOptions(variant="reference", beta=5.0, kappa=[0.1, 0.2]), EFCOptions(), Options(lr=0.5)):
        other = again(made)
        assert other == made
        assert vars(other) == vars(made)
        assert set(vars(made)) == {item.name for item in fields(made)}  # no trace of how it was made


def test_what_a_variant_sets_is_checked_too() -> None:
    @dataclass(frozen=True)
    class Wrong(Options):
        variants = {"bad": {"lr": -1.0}}  # noqa: RUF012
        variant: str = "none"

    with pytest.raises(EFCError, match="lr: must be above 0"):
        Wrong(variant="bad")
    assert Wrong(variant="bad", lr=0.1).lr == 0.1


def test_a_section_goes_over_its_variant_and_that_over_the_base() -> None:
    base = {"beta": 7.0, "lr": 0.5, "solver_options": {"tol": 1e-3, "max_steps": 9}}
    section = {"preset": "reference", "kappa": 3.0, "lambda": 0.2, "solver_options": {"tol": 1e-5}}
    found = EFCOptions.layered(base, section)
    assert found["beta"] == ABLATIONS["reference"]["beta"]
    assert found["lr"] == ABLATIONS["reference"]["lr"]
    assert (found["kappa"], found["lam"], found["variant"]) == (3.0, 0.2, "reference")
    assert found["solver_options"] == ABLATIONS["reference"]["solver_options"] | {"tol": 1e-5}
    assert EFCOptions.layered(base, {"variant": "beta_0"})["solver_options"] == base["solver_options"]
    assert "preset" not in found
    assert EFCOptions.layered(base, {"lr": 0.1}) == base | {"lr": 0.1}
    # A complete set of options, as a saved configuration has it, stays as it is unless the section names a variant.
    complete = EFCOptions(variant="paper", beta=3.0).to_mapping()
    assert EFCOptions.layered(complete, {}) == complete
    assert EFCOptions.layered(complete, {"variant": "reference"})["beta"] == 1.0
    old = {("preset" if key == "variant" else key): value for key, value in complete.items()}
    assert EFCOptions.layered(old, {"variant": "none"})["variant"] == "none"
    with pytest.raises(EFCError, match=r"variant: unknown value 'refrence' .*'reference'"):
        EFCOptions.from_mapping(EFCOptions.layered(base, {"preset": "refrence"}))


def test_an_old_key_is_no_key_where_there_is_no_such_option() -> None:
    for key in ("preset", "lambda"):
        with pytest.raises(EFCError, match=f"{key}: no such option"):
            Options.from_mapping({key: "paper"})


def test_merging_leaves_what_it_merges_alone() -> None:
    base, top = {"a": {"x": 1, "y": 2}, "b": 3}, {"a": {"y": 5}, "c": 4}
    assert merged(base, top) == {"a": {"x": 1, "y": 5}, "b": 3, "c": 4}
    assert base == {"a": {"x": 1, "y": 2}, "b": 3}


def test_together_is_one_value_where_all_agree_and_a_list_where_they_differ() -> None:
    each = [EFCOptions(variant="reference", beta=beta, kappa=torch.tensor(4.0)) for beta in (0.5, 10.0)]
    found = EFCOptions.together(each)
    assert found.beta == [0.5, 10.0]
    assert float(found.kappa) == 4.0  # type: ignore[arg-type]
    assert (found.variant, found.form, found.lr) == ("reference", "bounded", 3e-5)
    assert EFCOptions.together(each[:1]) == each[0]
    # The variant is a name by now: values that were changed behind it are not set again.
    back = [replace(options, form="multiplicative") for options in each]
    assert EFCOptions.together(back).form == "multiplicative"
    with pytest.raises(EFCError, match="form: expected one of"):
        EFCOptions.together([each[0], back[0]])


def test_functions_that_differ_are_not_taken_for_one() -> None:
    first, second = (EFCOptions(preservation=lambda theta, k=k: theta) for k in (1, 2))
    assert EFCOptions.together([first, first]).preservation is first.preservation
    with pytest.raises(EFCError, match="preservation"):
        EFCOptions.together([first, second])


@pytest.mark.parametrize("name", LEARNERS)
def test_the_same_options_may_be_changed_between_tasks_as_ever(name: str) -> None:
    """Once this was a list of names, whatever the method."""
    cls = LEARNERS[name].options_type
    once = {"lr", "beta", "strength", "pull", "mu", "distil", "temperature"}
    assert cls.changeable() == once & {item.name for item in fields(cls)}


def test_an_option_of_ones_own_says_whether_it_may_change() -> None:
    @dataclass(frozen=True)
    class Own(Options):
        free: float = number(1.0, changeable=True, per_run=False, search=(0.1, 2.0))
        fixed: float = number(1.0)
        bare: int = 3

    assert {"free", "lr", "mu"} == Own.changeable()
    assert "fixed" in Own.per_run()
    assert not {"free", "bare"} & Own.per_run()
    assert Own.space()["free"] == (0.1, 2.0)
    assert Own(bare=5).bare == 5


@pytest.mark.parametrize("name", LEARNERS)
def test_every_option_is_explained(name: str) -> None:
    cls: type[Options] = LEARNERS[name].options_type
    rules = cls._rules()
    assert rules.keys() == {item.name for item in fields(cls)}
    silent = {option for option, rule in rules.items() if not rule.doc}
    assert silent <= {"feedback", "output", "head_rule", "solver"}  # their values say what they are
