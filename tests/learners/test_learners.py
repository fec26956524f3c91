"""What every learner must do: run axis, state, head policies, options that matter."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from efc.core import Parameters, accumulate, diagonal_fisher
from efc.errors import EFCError
from efc.learners import EFC, EWC, LEARNERS, SGD, EFCOptions, EWCOptions, Learner, Options, TaskData
from efc.learners.heads import RidgeMoments
from efc.training import shuffled, train
from tasks import toy_stream

SIZES = (6, 8, 7, 6)
OPTIONS: dict[str, Any] = {
    "efc": EFCOptions(lr=1e-2, beta=1.0, head_beta=2.0),
    "ewc": EWCOptions(lr=1e-2, strength=100.0),
    "sgd": Options(lr=1e-2),
}
every_learner = pytest.mark.parametrize("name", LEARNERS)
every_head = pytest.mark.parametrize("head", ["random", "least_squares"])


def make(name: str, seeds: Any = (0, 1), head: str = "least_squares", options: Any = None, **kwargs: Any) -> Learner:
    chosen = OPTIONS[name] if options is None else options
    return LEARNERS[name](SIZES, list(seeds), chosen, head=head, **({"dtype": torch.float64} | kwargs))


def fit(learner: Learner, scenario: str = "class", epochs: int = 2) -> Learner:
    train(learner, toy_stream(scenario, dtype=learner.theta.dtype), epochs=epochs, batch_size=8)
    return learner


@every_learner
@every_head
def test_runs_together_equal_runs_apart(name: str, head: str) -> None:
    together = fit(make(name, seeds=(3, 7, 11), head=head))
    for run, seed in enumerate((3, 7, 11)):
        apart = fit(make(name, seeds=(seed,), head=head))
        torch.testing.assert_close(together.theta[run], apart.theta[0], rtol=0, atol=1e-10)


@every_learner
def test_options_may_differ_per_run(name: str) -> None:
    together = fit(make(name, options=type(OPTIONS[name])(lr=[1e-2, 3e-3])))
    apart = fit(make(name, seeds=(1,), options=type(OPTIONS[name])(lr=3e-3)))
    torch.testing.assert_close(together.theta[1], apart.theta[0], rtol=0, atol=1e-10)
    assert not torch.allclose(
        together.theta[0], fit(make(name, seeds=(0,), options=type(OPTIONS[name])(lr=3e-3))).theta[0]
    )


PER_RUN = [
    ("efc", "beta", (0.2, 5.0)), ("efc", "head_beta", (0.5, 20.0)), ("efc", "kappa", (0.05, 0.4)),
    ("efc", "lam", (0.01, 0.2)), ("ewc", "strength", (1.0, 1e4)), ("sgd", "ridge", (1e-6, 1.0)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "option", "values"), PER_RUN, ids=lambda v: str(v))
def test_every_number_may_differ_per_run(name: str, option: str, values: tuple[float, float]) -> None:
    base = {"lr": 1e-2, **({"beta": 1.0, "head_beta": 2.0} if name == "efc" else {})}
    kind = type(OPTIONS[name])
    together = fit(make(name, seeds=(5, 5), options=kind(**(base | {option: list(values)}))))
    assert not torch.allclose(together.theta[0], together.theta[1])
    for run, value in enumerate(values):
        apart = fit(make(name, seeds=(5,), options=kind(**(base | {option: value}))))
        torch.testing.assert_close(together.theta[run], apart.theta[0], rtol=0, atol=1e-10)


def test_on_failure_reaches_the_weights() -> None:
    unsettled = {"solver": "fixed_point", "solver_options": {"max_steps": 1, "tol": 1e-12}}
    task = toy_stream("class", dtype=torch.float64).data(0, 5)
    moved = {}
    for rule in ("zero", "keep"):
        learner = make("efc", head="random", options=EFCOptions(lr=1e-2, on_failure=rule, **unsettled))
        before = learner.theta.clone()
        train_on(learner, task, 2)
        moved[rule] = float((learner.theta - before).abs().max())
    assert moved["zero"] == 0 < moved["keep"]


@pytest.mark.parametrize("output", ["softmax", "linear"])
def test_the_fisher_in_efc_is_that_of_its_loss_over_the_active_classes(output: str) -> None:
    stream = toy_stream("class", dtype=torch.float64)
    learner = make("efc", options=EFCOptions(lr=1e-3, output=output))
    assert isinstance(learner, EFC)
    expected: Tensor | None = None
    for i in range(2):
        task = stream.data(i, 4)
        train_on(learner, task, 4)
        learner.end_task(task)
        F = diagonal_fisher(
            learner.layout, learner.theta, learner.sigma, learner.passes(task, task.active), task.active, output
        )
        expected = F if expected is None else accumulate(expected, F)
    torch.testing.assert_close(learner.fisher, torch.as_tensor(expected))


def test_the_learning_rate_follows_a_cosine() -> None:
    class Constant(SGD):
        def descent(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
            self.gradient.fill_(1.0)
            return {}

    learner = Constant(SIZES, [0], Options(lr=0.1, optimiser="adam"), head="random", dtype=torch.float64)
    task = toy_stream("class", dtype=torch.float64).data(0, 10)
    learner.begin_task(task)
    steps = []
    for _ in range(10):
        before = learner.theta[0, 0].clone()
        learner.step(task.x[:4].expand(1, -1, -1), task.y[:4].expand(1, -1))
        steps.append(float(before - learner.theta[0, 0]))
    expected = [
        0.1 * 0.5 * (1 + math.cos(math.pi * k / 10)) for k in range(10)
    ]  # Adam's step on a constant gradient is lr
    assert steps == pytest.approx(expected, rel=1e-6)


def test_a_finite_but_singular_neighbour_does_no_harm() -> None:
    moments = RidgeMoments()
    h = torch.rand(2, 30, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    h[0] = 2.0**60 * h[0, :, :1]
    moments.add(h, torch.rand(2, 30, 2, dtype=torch.float64))
    assert torch.isfinite(moments.solve(1e-30)[0][1]).all()


def test_ewc_leaves_inactive_rows_alone_when_a_task_comes_back() -> None:
    stream = toy_stream("task", dtype=torch.float64)
    learner = make("ewc", options=EWCOptions(lr=1e-2, strength=100.0))
    for i in (0, 1, 0):
        train_on(learner, stream.data(i, 5), 5)
        learner.end_task(stream.data(i, 5))
    before = learner.layers.weights[-1][:, 0:2].clone()
    train_on(learner, stream.data(1, 5), 5)
    assert torch.equal(learner.layers.weights[-1][:, 0:2], before)


def test_float32_data_train_a_float64_learner() -> None:
    fit_stream = toy_stream("class", dtype=torch.float32)
    train(make("sgd"), fit_stream, epochs=1, batch_size=8)


@every_learner
@every_head
def test_a_diverging_neighbour_does_no_harm(name: str, head: str) -> None:
    wild = make(name, head=head)
    wild.theta[0, 5] = float("nan")
    result = train(wild, toy_stream("class", dtype=torch.float64), epochs=2, batch_size=8)
    assert result.diverged == [0]
    assert (result.accuracy_matrix[0, -1] == 0).all()
    torch.testing.assert_close(wild.theta[1], fit(make(name, seeds=(1,), head=head)).theta[0], rtol=0, atol=1e-10)


@every_learner
@pytest.mark.parametrize("scenario", ["class", "task", "domain"])
def test_learns_a_separable_stream_and_leaves_inactive_outputs_alone(name: str, scenario: str) -> None:
    stream = toy_stream(scenario, dtype=torch.float64)
    learner = LEARNERS[name]((6, 20, stream.n_outputs), [0, 1], type(OPTIONS[name])(lr=1e-2), dtype=torch.float64)
    task = stream.data(0, steps=40)
    unseen = learner.layers.weights[-1][:, task.active.stop :].clone()
    learner.begin_task(task)
    for _ in range(20):
        for index in shuffled(len(task.y), 8, [torch.Generator().manual_seed(s) for s in (0, 1)], task.y.device):
            learner.step(task.x[index], task.y[index])
    learner.end_task(task)
    predicted = learner.logits(task.x, task.active).argmax(-1) + task.active.start
    assert (predicted == task.y).double().mean() > 0.95
    assert torch.equal(learner.layers.weights[-1][:, task.active.stop :], unseen)
    if scenario == "task":
        first = learner.layers.weights[-1][:, task.active].clone()
        train_on(learner, stream.data(1, steps=5), steps=5)
        assert torch.equal(learner.layers.weights[-1][:, task.active], first)


def train_on(learner: Learner, task: TaskData, steps: int) -> None:
    learner.begin_task(task)
    for k in range(steps):
        index = torch.randperm(len(task.y), generator=torch.Generator().manual_seed(k))[:8]
        learner.step(task.x[index].expand(learner.runs, -1, -1), task.y[index].expand(learner.runs, -1))


LEARNED = EFCOptions(lr=1e-2, feedback="learned", feedback_warm_up=3, feedback_options={"steps": 8})


@pytest.mark.parametrize(
    ("name", "options"), [*OPTIONS.items(), ("efc", LEARNED)], ids=[*OPTIONS, "efc-learned-feedback"]
)
def test_state_is_whole(name: str, options: Any) -> None:
    """Stop in the middle of the second task, load into a fresh learner, go on: bit for bit the uninterrupted run."""
    stream = toy_stream("class", dtype=torch.float64)

    def steps(learner: Learner, task: TaskData, first: int, last: int) -> None:
        for k in range(first, last):
            index = torch.randperm(len(task.y), generator=torch.Generator().manual_seed(k))[:8]
            learner.step(task.x[index].expand(2, -1, -1), task.y[index].expand(2, -1))

    whole = make(name, options=options)
    train_on(whole, stream.data(0, 6), 6)
    whole.end_task(stream.data(0, 6))
    whole.begin_task(stream.data(1, 6))
    steps(whole, stream.data(1, 6), 0, 3)
    saved = {key: value.clone() for key, value in whole.state_dict().items()}
    resumed = make(name, options=options)
    resumed.load_state_dict(saved)
    for learner in (whole, resumed):
        steps(learner, stream.data(1, 6), 3, 6)
        learner.end_task(stream.data(1, 6))
        train_on(learner, stream.data(2, 4), 4)
    for key, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[key]), key


def test_a_state_that_does_not_fit_is_refused() -> None:
    learner = make("ewc")
    with pytest.raises(EFCError, match="missing"):
        learner.load_state_dict(make("sgd").state_dict())
    with pytest.raises(EFCError, match="theta is"):
        learner.load_state_dict(make("ewc", seeds=(0, 1, 2)).state_dict())


EFC_VARIANTS: dict[str, dict[str, Any]] = {
    "lr": {"lr": 5e-3}, "optimiser": {"optimiser": "sgd"}, "ridge": {"ridge": 1e-1}, "beta": {"beta": 0.5},
    "head_beta": {"head_beta": 5.0}, "normalise": {"normalise": "neuron"}, "kappa": {"kappa": 0.5}, "lam": {"lam": 0.1},
    "target": {"target": "strong"}, "feedback": {"feedback": "least_control"}, "learned": {"feedback": "learned"},
    "output": {"output": "linear"}, "output_ce": {"output": "linear_ce"}, "form": {"form": "additive"},
    "head_rule": {"head_rule": "rates"},
}  # fmt: skip


@pytest.mark.parametrize("variant", EFC_VARIANTS)
def test_every_option_of_efc_matters(variant: str) -> None:
    base = {"lr": 1e-2, "beta": 1.0, "head_beta": 2.0}
    one = fit(make("efc", options=EFCOptions(**base)))
    other = fit(make("efc", options=EFCOptions(**(base | EFC_VARIANTS[variant]))))
    assert float((one.theta - other.theta).norm() / one.theta.norm()) > 1e-4


@pytest.mark.parametrize("change", [{"k_p": 0.05}, {"solver": "newton"}, {"solver": "relaxation"}])
def test_what_must_not_matter_does_not(change: dict[str, Any]) -> None:
    # Softplus: no unit can flip, so every sample has an equilibrium, and it is the same for everyone.
    base: dict[str, Any] = {"lr": 1e-2, "beta": 1.0, "solver_options": {"tol": 1e-9, "max_steps": 2000}}
    one = fit(make("efc", options=EFCOptions(**base), activation="softplus"))
    other = fit(make("efc", options=EFCOptions(**(base | change)), activation="softplus"))
    torch.testing.assert_close(one.theta, other.theta, rtol=0, atol=1e-4)


def test_ewc_options_matter_and_zero_strength_is_sgd() -> None:
    base = fit(make("ewc"))
    assert not torch.allclose(base.theta, fit(make("ewc", options=EWCOptions(lr=1e-2, strength=1.0))).theta)
    zero = fit(make("ewc", options=EWCOptions(lr=1e-2, strength=0.0)))
    assert torch.equal(zero.theta, fit(make("sgd")).theta)


def test_ewc_penalty_gradient_equals_autograd_of_the_sum_over_tasks() -> None:
    stream = toy_stream("class", dtype=torch.float64)
    learner = make("ewc", options=EWCOptions(lr=1e-2, strength=7.0))
    assert isinstance(learner, EWC)
    fishers: list[Tensor] = []
    anchors: list[Tensor] = []
    for i in range(2):
        before = learner.fisher.clone()
        train_on(learner, stream.data(i, 6), 6)
        learner.end_task(stream.data(i, 6))
        fishers.append(learner.fisher - before)
        anchors.append(learner.theta.clone())
    task = stream.data(2, 1)
    train_on(learner, task, 3)
    x, y = task.x[:8].expand(2, -1, -1), learner.one_hot(task.y[:8].expand(2, -1), learner.active)
    SGD.descent(learner, x, y)
    plain = learner.gradient.clone()
    learner.descent(x, y)
    theta = learner.theta.clone().requires_grad_()
    penalty = sum((7.0 * F * (theta - a) ** 2).sum() for F, a in zip(fishers, anchors, strict=True))
    (expected,) = torch.autograd.grad(torch.as_tensor(penalty), theta)
    assert float(expected.norm()) > 1e-6
    torch.testing.assert_close(learner.gradient - plain, expected, rtol=1e-8, atol=1e-12)


def test_sgd_gradient_equals_autograd() -> None:
    stream = toy_stream("class", dtype=torch.float64)
    learner, task = make("sgd"), stream.data(1, 1)
    learner.begin_task(task)
    x, y = task.x[:8].expand(2, -1, -1), task.y[:8].expand(2, -1)
    learner.descent(x, learner.one_hot(y, learner.active))
    theta = learner.theta.clone().requires_grad_()
    layers = learner.layout.views(theta)
    r = x
    for i, (W, b) in enumerate(zip(layers.weights, layers.biases, strict=True)):
        r = torch.einsum("rbj,rkj->rbk", r, W) + b.unsqueeze(1)
        r = torch.relu(r) if i < 2 else r
    logits = r[..., learner.active]
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="sum") / 8
    (expected,) = torch.autograd.grad(loss, theta)
    torch.testing.assert_close(learner.gradient, expected)


def test_preservation_in_efc_keeps_what_was_learned() -> None:
    """With beta, training on the second task moves the important weights less than without."""
    moved = []
    for beta in (0.0, 100.0):
        stream = toy_stream("class", dtype=torch.float64)
        learner = make("efc", options=EFCOptions(lr=3e-3, beta=beta, head_beta=1.0))
        assert isinstance(learner, EFC)
        train_on(learner, stream.data(0, 40), 40)
        learner.end_task(stream.data(0, 40))
        train_on(learner, stream.data(1, 40), 40)
        moved.append(float((learner.fisher * (learner.theta - learner.anchor).square()).sum()))
    assert moved[1] < 0.5 * moved[0]


def test_efc_sums_rescaled_fishers_and_takes_the_newest_anchor() -> None:
    stream = toy_stream("class", dtype=torch.float64)
    learner = make("efc")
    assert isinstance(learner, EFC)
    train_on(learner, stream.data(0, 6), 6)
    learner.end_task(stream.data(0, 6))
    first = learner.fisher.clone()
    train_on(learner, stream.data(1, 6), 6)
    learner.end_task(stream.data(1, 6))
    added = learner.fisher - first
    torch.testing.assert_close(added.norm(dim=1), first.norm(dim=1))
    assert torch.equal(learner.anchor, learner.theta)


def test_a_users_own_regulariser_becomes_a_preservation_signal() -> None:
    def towards_zero(theta: Parameters) -> Parameters:
        return theta

    options = EFCOptions(lr=1e-2, beta=0.1, kappa=0.0)
    learner = EFC(SIZES, [0], options, head="random", dtype=torch.float64, preservation=towards_zero)
    before = learner.theta.norm()
    train_on(learner, toy_stream("class", dtype=torch.float64).data(0, 20), 20)
    assert learner.theta.norm() < before
    with pytest.raises(EFCError, match="preservation"):
        EFC(SIZES, [0], preservation="ewx")
    with pytest.raises(EFCError, match="importances"):
        EFC(SIZES, [0], EFCOptions(normalise="neuron"), preservation=towards_zero)


def test_learned_feedback_aligns_while_training() -> None:
    stream = toy_stream("class", dtype=torch.float64)
    options = EFCOptions(lr=1e-3, feedback="learned", feedback_warm_up=80)
    learner = EFC((6, 20, 20, 6), [0, 1], options, dtype=torch.float64)
    train_on(learner, stream.data(0, 10), 10)
    assert (learner.feedback_alignment(stream.data(0, 1).x) > 0.6).all()  # J^T differs between samples, Q does not
    with pytest.raises(EFCError, match="alignment"):
        make("efc").feedback_alignment(stream.data(0, 1).x)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: Options(lr=-1.0), "lr: must be above 0, got -1"),
        (lambda: Options(lr=[1e-3, 0.0]), "lr: must be above 0, got 0"),
        (lambda: Options(lr="fast"), "lr: expected a number"),
        (lambda: Options(lr=True), "lr: expected a number"),
        (lambda: Options(optimiser="adma"), "optimiser: .*did you mean 'adam'"),
        (lambda: EFCOptions(beta=float("nan")), "beta: must be at least 0"),
        (lambda: EFCOptions(lam=2.0), "lam: .*at most 1, got 2"),
        (lambda: EFCOptions(solver_options={"tool": 1}), "solver.tool: anderson has no such option"),
        (lambda: EFCOptions(solver_options=3), "solver_options: expected named values"),
        (lambda: EFCOptions(feedback_options={"nose": 1}), "feedback_options.nose: .*'noise'"),
        (lambda: EFCOptions.from_mapping({"bta": 1}), "bta: no such option.*'beta'"),
        (lambda: SGD(SIZES, []), "seeds"),
        (lambda: SGD(SIZES, [0], head="leastsquares"), "head: .*'least_squares'"),
        (lambda: EFC(SIZES, [0, 1], EFCOptions(beta=[1.0, 2.0, 3.0])), "beta: .*got 3"),
        (lambda: EFC(SIZES, [0], EFCOptions(k_p=1.0)), "k_p"),
        (lambda: EFC(SIZES, [0, 1], EFCOptions(kappa=[0.1, 0.2, 0.3])), "kappa: .*got 3"),
        (lambda: EFC(SIZES, [0, 1], EFCOptions(lam=[0.1, 0.2, 0.3])), "lam: .*got 3"),
        (lambda: EFC((6, 4), [0], EFCOptions(feedback="learned")), "needs a hidden layer"),
        (lambda: EFCOptions(feedback_warm_up=2.5), "whole number"),
    ],
)
def test_mistakes_are_named(build: Any, says: str) -> None:
    with pytest.raises(EFCError, match=says):
        build()


def test_lambda_may_be_called_by_its_name() -> None:
    assert EFCOptions.from_mapping({"lambda": 0.5}).lam == 0.5


def test_core_and_learners_import_only_torch_numpy_and_the_standard_library() -> None:
    code = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "import importlib.util, types\n"
        "import torch, numpy\n"
        "package = types.ModuleType('efc'); package.__path__ = [sys.argv[1]]; sys.modules['efc'] = package\n"
        "loaded = set(sys.modules)\n"
        "import efc.core, efc.learners\n"
        "new = {name.split('.')[0] for name in set(sys.modules) - loaded}\n"
        "extra = new - set(sys.stdlib_module_names) - {'efc', 'torch', 'numpy'}\n"
        "sys.exit(f'also imported: {extra}' if extra else 0)\n"
    )
    source = Path(__file__).parents[2] / "src" / "efc"
    done = subprocess.run([sys.executable, "-c", code, str(source)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
