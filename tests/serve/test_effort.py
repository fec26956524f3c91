"""What the controller has to do for a label: against the learner's own rule, and for nothing."""

from __future__ import annotations

import pytest
import torch

from efc.classifiers.growing import Growing
from efc.classifiers.setup import Setup
from efc.serve.effort import MOST, effort_of
from support.serving import samples


def appeared(y: list[int]) -> list[int]:
    order = list(dict.fromkeys(y))
    return [order.index(label) for label in y]


def test_it_is_what_the_learning_rule_itself_sees() -> None:
    """With a head that is trained, a step on the same samples reports the same sums."""
    growing = Growing(Setup(4, hidden=(6, 5), head="zero", stream=True))
    x, y = samples(700)
    growing.observe(torch.tensor(x, dtype=torch.float64), torch.tensor(appeared(y)))
    some, labels = torch.tensor(x[:MOST], dtype=torch.float64), torch.tensor(appeared(y)[:MOST])
    found = effort_of(growing, some, labels)
    assert found is not None
    learner = growing.fork().learner
    assert learner is not None
    ready = learner._with_runs(some)
    sums = learner.descent(ready, learner.one_hot(labels, learner.active)[None])["effort"][0] / MOST  # type: ignore[attr-defined]
    assert found.psi + found.gamma == pytest.approx(sums.tolist(), rel=2e-3)
    assert min(found.psi) > 0
    assert max(found.gamma) > 0, "after 512 samples there is something to preserve"


def test_a_wrong_label_is_an_effort_where_the_head_reads_the_inputs_too() -> None:
    growing = Growing(Setup(4, hidden=(6, 5), stream=True))
    x, y = samples(300)
    growing.observe(torch.tensor(x, dtype=torch.float64), torch.tensor(appeared(y)))
    growing.settle()
    some, labels = torch.tensor(x[:8], dtype=torch.float64), torch.tensor(appeared(y)[:8])
    right, wrong = effort_of(growing, some, labels), effort_of(growing, some, (labels + 1) % 3)
    assert right is not None
    assert wrong is not None
    assert all(w > 2 * r for w, r in zip(wrong.psi, right.psi, strict=True))
    assert wrong.gamma == [0.0, 0.0, 0.0], "nothing is preserved where the features stay"


def test_no_bit_of_the_learner_changes() -> None:
    growing = Growing(Setup(4, hidden=(6,), head="zero", stream=True))
    x, y = samples(600)
    growing.observe(torch.tensor(x, dtype=torch.float64), torch.tensor(appeared(y)))
    other = growing.fork()
    effort_of(other, torch.tensor(x, dtype=torch.float64), torch.tensor(appeared(y)))
    for one in (growing, other):
        one.observe(torch.tensor(x, dtype=torch.float64), torch.tensor(appeared(y)))
    a, b = growing.state_dict(), other.state_dict()
    assert all(torch.equal(a[key], b[key]) for key in a)


def test_there_is_none_for_methods_without_control_and_for_outputs_that_are_not_there() -> None:
    growing = Growing(Setup(4, hidden=(6,), method="sgd", stream=True))
    x, y = samples(40)
    growing.observe(torch.tensor(x, dtype=torch.float64), torch.tensor(appeared(y)))
    assert effort_of(growing, torch.tensor(x, dtype=torch.float64), torch.tensor(appeared(y))) is None
    efc = Growing(Setup(4, hidden=(6,), stream=True))
    assert effort_of(efc, torch.tensor(x, dtype=torch.float64), torch.tensor(appeared(y))) is None
    efc.observe(torch.tensor(x, dtype=torch.float64), torch.tensor(appeared(y)))
    assert effort_of(efc, torch.tensor(x[:1], dtype=torch.float64), torch.tensor([7])) is None
