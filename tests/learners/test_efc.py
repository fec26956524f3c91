"""EFC as a learner: every option, every regulariser as its preservation signal, the anchor, the named variants."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from efc.core import Parameters, accumulate, diagonal_fisher
from efc.errors import EFCError
from efc.learners import ABLATIONS, EFC, LEARNERS, MEMORIES, EFCOptions
from support.learner_helpers import OPTIONS, PLAIN, SIZES, fit, make, train_on, with_options
from support.tasks import toy_stream

VARIANTS: dict[str, dict[str, Any]] = {
    "lr": {"lr": 5e-3}, "optimiser": {"optimiser": "sgd"}, "ridge": {"ridge": 1e-1}, "beta": {"beta": 0.5},
    "head_beta": {"head_beta": 5.0}, "normalise": {"normalise": "neuron"}, "kappa": {"kappa": 0.5}, "lam": {"lam": 0.1},
    "target": {"target": "strong"}, "feedback": {"feedback": "least_control"}, "learned": {"feedback": "learned"},
    "output": {"output": "linear"}, "output_ce": {"output": "linear_ce"}, "form": {"form": "additive"},
    "bounded": {"form": "bounded"}, "head_rule": {"head_rule": "rates"}, "frozen": {"head_rule": "frozen"},
    "anchor": {"anchor": 10.0}, "pull": {"pull": 1.0}, "head_pull": {"head_pull": 30.0}, "rank": {"rank": 2},
    "step": {"step": "natural", "mu": 1.0}, "none": {"normalise": "none"},
    **{
        kind: {"preservation": kind, "beta": 30.0, "decay": 0.3}
        for kind in MEMORIES
        if kind not in ("running_ewc", "l2")
    },
}  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_option_matters(variant: str) -> None:
    strong = {key: value for key, value in VARIANTS[variant].items() if key == "beta" and variant != "beta"}
    one = fit(make("efc", options=with_options("efc", **strong)))
    other = fit(make("efc", options=with_options("efc", **VARIANTS[variant])))
    assert float((one.theta - other.theta).norm() / one.theta.norm()) > 1e-4


@pytest.mark.parametrize(
    ("kind", "option", "value"), [("online_ewc", "decay", 0.3), ("si", "damping", 1.0)], ids=lambda v: str(v)
)
def test_options_of_the_regularisers_matter(kind: str, option: str, value: float) -> None:
    one = fit(make("efc", options=with_options("efc", beta=30.0, preservation=kind)))
    other = fit(make("efc", options=with_options("efc", beta=30.0, preservation=kind, **{option: value})))
    assert float((one.theta - other.theta).norm() / one.theta.norm()) > 1e-5


@pytest.mark.parametrize("change", [{"k_p": 0.05}, {"solver": "newton"}, {"solver": "relaxation"}])
def test_what_must_not_matter_does_not(change: dict[str, Any]) -> None:
    # Softplus: no unit can flip, so every sample has an equilibrium, and it is the same for everyone.
    base: dict[str, Any] = {"lr": 1e-2, "beta": 1.0, "solver_options": {"tol": 1e-9, "max_steps": 2000}}
    one = fit(make("efc", options=EFCOptions(**PLAIN, **base), activation="softplus"))
    other = fit(make("efc", options=EFCOptions(**PLAIN, **(base | change)), activation="softplus"))
    torch.testing.assert_close(one.theta, other.theta, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    "change", [{}, {"preservation": "si"}, {"feedback": "learned"}, {"on_failure": "zero", "kappa": 5.0}], ids=str
)
def test_a_batch_solved_in_pieces_is_the_batch(change: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """In pieces of three samples, the last with fewer: weights, what is remembered and statistics are the same."""
    stream = toy_stream("class", dtype=torch.float64)
    found = []
    for at_once, least, pieces in ((10**9, 256, 1), (1, 3, 3)):
        monkeypatch.setattr("efc.learners.efc.AT_ONCE", at_once)
        monkeypatch.setattr("efc.learners.efc.LEAST", least)
        learner = make("efc", options=with_options("efc", **change))
        assert isinstance(learner, EFC)
        x = stream.data(0, 1).x[:8].expand(2, -1, -1)
        assert [s.stop - s.start for s in learner._pieces(x)] == ([8] if pieces == 1 else [3, 3, 2])
        for k in range(2):
            task = stream.data(k, 3)
            train_on(learner, task, 3)
            told = learner.step(task.x[:8].expand(2, -1, -1), task.y[:8].expand(2, -1))
            learner.end_task(task)
        found.append((learner, told))
    (whole, one), (cut, other) = found
    torch.testing.assert_close(cut.state_dict(), whole.state_dict(), rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(other, one)


def test_what_counts_shares_of_a_batch_takes_it_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("efc.learners.efc.AT_ONCE", 1)
    monkeypatch.setattr("efc.learners.efc.LEAST", 3)
    learner = make("efc", options=with_options("efc", solver_options={"enough": 0.9}))
    assert isinstance(learner, EFC)
    assert list(learner._pieces(torch.zeros(2, 8, 6))) == [slice(0, 8)]


def test_on_failure_reaches_the_weights() -> None:
    unsettled = {"solver": "fixed_point", "solver_options": {"max_steps": 1, "tol": 1e-12}}
    task = toy_stream("class", dtype=torch.float64).data(0, 5)
    moved = {}
    for rule in ("zero", "keep"):
        learner = make("efc", head="random", options=EFCOptions(**PLAIN, lr=1e-2, on_failure=rule, **unsettled))
        before = learner.theta.clone()
        train_on(learner, task, 2)
        moved[rule] = float((learner.theta - before).abs().max())
    assert moved["zero"] == 0 < moved["keep"]


@pytest.mark.parametrize("output", ["softmax", "linear"])
def test_the_fisher_is_that_of_its_loss_over_the_active_classes(output: str) -> None:
    stream = toy_stream("class", dtype=torch.float64)
    learner = make("efc", options=EFCOptions(**PLAIN, lr=1e-3, output=output))
    assert isinstance(learner, EFC)
    assert learner.memory is not None
    expected: Tensor | None = None
    for i in range(2):
        task = stream.data(i, 4)
        train_on(learner, task, 4)
        learner.end_task(task)
        F = diagonal_fisher(
            learner.layout, learner.theta, learner.sigma, learner.passes(task, task.active), task.active, output
        )
        expected = F if expected is None else accumulate(expected, F)
    torch.testing.assert_close(learner.memory.omega, torch.as_tensor(expected))
    assert torch.equal(learner.memory.anchor, learner.theta)


@pytest.mark.parametrize("kind", MEMORIES)
def test_preservation_keeps_what_was_learned(kind: str) -> None:
    """With beta, training on the second task raises the regulariser's ``R`` less than without."""
    rises = []
    for beta in (0.0, {"si": 10.0, "l2": 0.1, "online_ewc": 10.0}.get(kind, 100.0)):
        stream = toy_stream("class", dtype=torch.float64)
        options = EFCOptions(**PLAIN, lr=3e-3, pull=0.0, normalise="none", beta=beta, head_beta=1.0, preservation=kind)
        learner = make("efc", options=options)
        assert isinstance(learner, EFC)
        assert learner.memory is not None
        train_on(learner, stream.data(0, 40), 40)
        learner.end_task(stream.data(0, 40))
        train_on(learner, stream.data(1, 40), 40)
        moved = learner.theta - learner.memory.anchor
        rises.append(float((moved * learner.memory.gradient(learner.theta)).sum()))
    assert rises[1] < 0.5 * rises[0]


@pytest.mark.parametrize("kind", ["ewc", "online_ewc", "si", "mas", "full_fisher"])
def test_preservation_and_penalty_remember_the_same(kind: str) -> None:
    """The same weights, the same path: EFC's memory holds what the penalised method's holds."""
    task = toy_stream("class", dtype=torch.float64).data(0, 6)
    efc = make("efc", options=with_options("efc", preservation=kind, damping=1e-3))
    penalised = LEARNERS[kind](SIZES, [0, 1], OPTIONS[kind], "least_squares", dtype=torch.float64)
    assert isinstance(efc, EFC)
    assert efc.memory is not None
    for learner in (efc, penalised):
        learner.begin_task(task)
    penalised.lr = penalised.lr * 0  # so that both stand where EFC goes
    for k in range(4):
        x, y = (t[8 * k : 8 * k + 8].expand(2, *[-1] * t.dim()) for t in (task.x, task.y))
        penalised.theta.copy_(efc.theta)
        before = efc.theta.clone()
        efc.step(x, y)
        penalised.step(x, y)
        if kind == "si":
            assert penalised.loss_gradient is not None  # type: ignore[attr-defined]
            penalised.memory.follow(penalised.loss_gradient, before - efc.theta)  # type: ignore[attr-defined]
    penalised.theta.copy_(efc.theta)
    for learner in (efc, penalised):
        learner.end_task(task)
    for name, value in penalised.memory.state_dict().items():  # type: ignore[attr-defined]
        assert float(value.double().norm()) > 0 or name == "offset"
        torch.testing.assert_close(efc.memory.state_dict()[name], value, rtol=1e-8, atol=1e-12)


def test_the_anchor_pulls_each_weight_itself() -> None:
    """``dW -= s dR/dW``: exactly that much is added to the direction of descent, at the active rows; five times
    that in the head."""
    stream = toy_stream("task", dtype=torch.float64)
    learner = make("efc", options=with_options("efc", anchor=[0.0, 3.0], head_beta=5.0), seeds=(4, 4))
    assert isinstance(learner, EFC)
    assert learner.memory is not None
    train_on(learner, stream.data(0, 6), 6)
    learner.end_task(stream.data(0, 6))
    learner.begin_task(stream.data(1, 6))
    learner.theta[:] = learner.theta[0] + 0.1
    task = stream.data(1, 6)
    x, y = task.x[:8].expand(2, -1, -1), learner.one_hot(task.y[:8].expand(2, -1), learner.active)
    learner.memory.omega[1], learner.memory.anchor[1] = learner.memory.omega[0], learner.memory.anchor[0]
    learner.descent(x, y)
    pull = learner.layout.views(3.0 * learner.memory.omega * (learner.theta - learner.memory.anchor))
    added = learner.layout.views((learner.gradient[1] - learner.gradient[0]).unsqueeze(0))
    torch.testing.assert_close(added.weights[0][0], pull.weights[0][1])
    assert float(pull.weights[0].abs().max()) > 1e-6
    torch.testing.assert_close(added.biases[-1][0, learner.active], 5 * pull.biases[-1][1, learner.active])
    torch.testing.assert_close(added.weights[-1][0, learner.active], 5 * pull.weights[-1][1, learner.active])
    assert (added.weights[-1][0, :2] == 0).all()  # the first task's rows are not active


def test_a_users_own_regulariser_becomes_a_preservation_signal() -> None:
    def towards_zero(theta: Parameters) -> Parameters:
        return theta

    task = toy_stream("class", dtype=torch.float64).data(0, 20)
    options = {"lr": 1e-2, "beta": 0.1, "kappa": 0.0, "normalise": "none"}
    for learner in (
        EFC(SIZES, [0], EFCOptions(**PLAIN, **options), head="random", dtype=torch.float64, preservation=towards_zero),
        EFC(SIZES, [0], EFCOptions(**PLAIN, **options, preservation=towards_zero), head="random", dtype=torch.float64),
    ):
        before = learner.theta.norm()
        train_on(learner, task, 20)
        assert learner.theta.norm() < before
    with pytest.raises(EFCError, match="preservation"):
        EFC(SIZES, [0], preservation="ewx")
    for given in (towards_zero, "l2"):
        with pytest.raises(EFCError, match="importances"):
            EFC(SIZES, [0], EFCOptions(normalise="neuron", preservation=given))


def stay(theta: Parameters) -> Parameters:
    """A regulariser a file can name."""
    return theta


def test_a_function_goes_through_a_file_by_its_name() -> None:
    plain = EFCOptions(preservation=stay).to_mapping()
    assert plain["preservation"] == f"{__name__}:stay"
    learner = EFC(SIZES, [0], EFCOptions.from_mapping({"preservation": "support.learner_helpers:fit"}))
    assert learner.memory is None


def test_variants_fill_what_is_not_given() -> None:
    for name, values in ABLATIONS.items():
        for options in (EFCOptions(variant=name), EFCOptions.from_mapping({"variant": name})):
            assert {key: getattr(options, key) for key in values} == values
            assert options.variant == name
    mine = EFCOptions.from_mapping({"variant": "reference", "beta": 3.0, "output": "softmax"})
    assert (mine.beta, mine.output, mine.form) == (3.0, "softmax", "bounded")
    assert EFCOptions.from_mapping(mine.to_mapping()) == mine


def test_reference_never_moves_its_head_and_modulates_by_a_tenth_at_most() -> None:
    learner = make("efc", options=EFCOptions.from_mapping({"variant": "reference", "lr": 1e-2}))
    task = toy_stream("class", dtype=torch.float64).data(0, 10)
    learner.begin_task(task)
    head = learner.layers.weights[-1].clone()
    below = learner.layers.weights[0].clone()
    train_on(learner, task, 10, begin=False)
    assert torch.equal(learner.layers.weights[-1], head)
    assert torch.equal(head, learner.layout.views(learner.initial(torch.float64)).weights[-1])  # nor was it fitted
    assert not torch.equal(learner.layers.weights[0], below)


def test_learned_feedback_aligns_while_training() -> None:
    stream = toy_stream("class", dtype=torch.float64)
    options = EFCOptions(**PLAIN, lr=1e-3, feedback="learned", feedback_warm_up=80)
    learner = EFC((6, 20, 20, 6), [0, 1], options, dtype=torch.float64)
    train_on(learner, stream.data(0, 10), 10)
    assert (learner.feedback_alignment(stream.data(0, 1).x) > 0.6).all()  # J^T differs between samples, Q does not
    with pytest.raises(EFCError, match="alignment"):
        make("efc").feedback_alignment(stream.data(0, 1).x)  # type: ignore[attr-defined]


def test_lambda_may_be_called_by_its_name() -> None:
    assert EFCOptions.from_mapping({"lambda": 0.5}).lam == 0.5
