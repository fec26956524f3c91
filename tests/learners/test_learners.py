"""What every learner must do: run axis, state, head policies, options that matter."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from efc.errors import EFCError
from efc.learners import EFC, HEADS, LEARNERS, SGD, DEROptions, EFCOptions, FullFisher, FullFisherOptions, Options
from efc.learners.frozen import Frozen, FrozenOptions
from efc.training.batches import batches
from efc.training.loop import train
from support.learner_helpers import OPTIONS, PLAIN, SIZES, TRAINED, fit, make, train_on, with_options
from support.tasks import toy_stream

every_learner = pytest.mark.parametrize("name", LEARNERS)
trained = pytest.mark.parametrize("name", TRAINED)
every_head = pytest.mark.parametrize("head", HEADS)


@trained
@every_head
def test_runs_together_equal_runs_apart(name: str, head: str) -> None:
    together = fit(make(name, seeds=(3, 7, 11), head=head))
    for run, seed in enumerate((3, 7, 11)):
        apart = fit(make(name, seeds=(seed,), head=head))
        torch.testing.assert_close(together.theta[run], apart.theta[0], rtol=0, atol=1e-10)
    assert not torch.allclose(together.theta[0], together.theta[1])


NUMBERS = {
    "efc": {
        "beta": (0.2, 5.0), "head_beta": (0.5, 20.0), "kappa": (0.05, 0.4), "lam": (0.01, 0.2), "anchor": (1.0, 9.0),
    },
    "ewc": {"strength": (1.0, 1e4)},
    "online_ewc": {"strength": (0.1, 1e3), "decay": (0.1, 1.0)},
    "si": {"strength": (0.1, 1e3), "damping": (1e-4, 1e-1)},
    "mas": {"strength": (0.01, 10.0), "head_strength": (0.1, 50.0)},
    "full_fisher": {"strength": (0.1, 1e3)},
    "der": {"alpha": (0.1, 5.0)},
    "derpp": {"alpha": (0.1, 5.0), "beta": (0.1, 5.0)},
    "analytic": {"ridge": (1e-6, 1.0)},
    "sgd": {"lr": (1e-2, 3e-3), "ridge": (1e-6, 1.0)},
    "joint": {"lr": (1e-2, 3e-3)},
}  # fmt: skip


@pytest.mark.parametrize(("name", "option"), [(n, o) for n, options in NUMBERS.items() for o in options])
def test_every_number_matters_and_may_differ_per_run(name: str, option: str) -> None:
    values = NUMBERS[name][option]
    together = fit(make(name, seeds=(5, 5), options=with_options(name, **{option: list(values)})))
    assert not torch.allclose(together.theta[0], together.theta[1], rtol=1e-4)
    for run, value in enumerate(values):
        apart = fit(make(name, seeds=(5,), options=with_options(name, **{option: value})))
        torch.testing.assert_close(together.theta[run], apart.theta[0], rtol=0, atol=1e-10)


@trained
def test_learning_rate_and_optimiser_matter(name: str) -> None:
    base = fit(make(name)).theta
    other_optimiser = {"adam": "sgd", "sgd": "adam"}[OPTIONS[name].optimiser]
    for change in ({"lr": 3e-3}, {"optimiser": other_optimiser}):
        other = fit(make(name, options=with_options(name, **change))).theta
        assert not torch.allclose(base, other, rtol=1e-3)


@pytest.mark.parametrize(("name", "change"), [("der", {"buffer": 4}), ("der", {"replay": 3}), ("derpp", {"buffer": 4})])
def test_sizes_of_replay_matter(name: str, change: dict[str, int]) -> None:
    assert not torch.allclose(fit(make(name)).theta, fit(make(name, options=with_options(name, **change))).theta)


def test_the_learning_rate_follows_a_cosine() -> None:
    class Constant(SGD):
        def descent(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
            self.gradient.fill_(1.0)
            return {}

    assert Constant.name == "constant"
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


def test_float32_data_train_a_float64_learner() -> None:
    learner = make("sgd")
    before = learner.theta.clone()
    result = train(learner, toy_stream("class", dtype=torch.float32), epochs=1, batch_size=8)
    assert learner.theta.dtype == torch.float64
    assert not torch.allclose(learner.theta, before)
    assert result.diverged == []


@trained
@every_head
def test_a_diverging_neighbour_does_no_harm(name: str, head: str) -> None:
    class Wild(LEARNERS[name]):  # type: ignore[misc]
        """Its first run is broken from the start, and stays so."""

        def initial(self, dtype: torch.dtype) -> Tensor:
            theta = super().initial(dtype)
            theta[0, 5] = float("nan")
            return theta

    wild = Wild(SIZES, [0, 1], OPTIONS[name], head=head, dtype=torch.float64)
    result = train(wild, toy_stream("class", dtype=torch.float64), epochs=2, batch_size=8)
    assert result.diverged == [0]
    assert (result.accuracy_matrix[0, -1] == 0).all()
    torch.testing.assert_close(wild.theta[1], fit(make(name, seeds=(1,), head=head)).theta[0], rtol=0, atol=1e-10)


@every_learner
@pytest.mark.parametrize("scenario", ["class", "task", "domain"])
def test_learns_a_separable_stream_and_leaves_inactive_outputs_alone(name: str, scenario: str) -> None:
    stream = toy_stream(scenario, dtype=torch.float64)
    head, options = ("least_squares" if name in TRAINED else None), with_options(name, lr=1e-2)
    learner = LEARNERS[name]((6, 20, stream.n_outputs), [0, 1], options, head, dtype=torch.float64)
    task = stream.data(0, steps=40)
    unseen = learner.layers.weights[-1][:, task.active.stop :].clone()
    learner.begin_task(task)
    for _ in range(20):
        for index in batches(len(task.y), 8, [torch.Generator().manual_seed(s) for s in (0, 1)]):
            learner.step(task.x[index], task.y[index])
    learner.end_task(task)
    predicted = learner.logits(task.x, task.active).argmax(-1) + task.active.start
    assert (predicted == task.y).double().mean() > 0.95
    assert torch.equal(learner.layers.weights[-1][:, task.active.stop :], unseen)
    replays = ("der", "derpp", "joint", "lwf")  # these go on training the heads of earlier tasks
    if scenario == "task" and name in TRAINED and name not in replays:
        first = learner.layers.weights[-1][:, task.active].clone()
        train_on(learner, stream.data(1, steps=5), steps=5)
        assert torch.equal(learner.layers.weights[-1][:, task.active], first)


RESUMED: dict[str, tuple[str, str, Any]] = {name: (name, "analytic", options) for name, options in OPTIONS.items()}
RESUMED |= {f"efc-{kind}": ("efc", "least_squares", with_options("efc", preservation=kind)) for kind in ("si", "mas")}
RESUMED |= {f"{name}-compensated": (name, "compensated", OPTIONS[name]) for name in ("sgd", "efc", "derpp", "joint")}
RESUMED |= {f"{name}-inputs": (name, "input_compensated", OPTIONS[name]) for name in ("sgd", "efc")}
RESUMED |= {"efc-gaussian": ("efc", "gaussian", OPTIONS["efc"])}
RESUMED["efc-learned"] = (
    "efc", "random", EFCOptions(lr=1e-2, feedback="learned", feedback_warm_up=3, feedback_options={"steps": 8})
)  # fmt: skip
CONTINUE = """
import sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from safetensors.torch import load_file, save_file
from learners.test_learners import RESUMED, finish, make
for key, (name, head, options) in RESUMED.items():
    learner = make(name, head=head, options=options)
    learner.load_state_dict(load_file(Path(sys.argv[1]) / f"{key}.half"))
    finish(learner)
    save_file({k: v.clone() for k, v in learner.state_dict().items()}, Path(sys.argv[1]) / f"{key}.end")
"""


def finish(learner: Any) -> None:
    """The second half of the second task, and the third."""
    stream = toy_stream("class", dtype=torch.float64)
    second, third = (stream.data(i, 6, learner.joint) for i in (1, 2))
    train_on(learner, second, 6, first=3, begin=False)
    learner.end_task(second)
    train_on(learner, third, 4)


def test_state_is_whole(tmp_path: Path) -> None:
    """Stop in the middle of the second task, save, load in a new process, go on: bit for bit the uninterrupted run."""
    stream = toy_stream("class", dtype=torch.float64)
    whole = {}
    for key, (name, head, options) in RESUMED.items():
        learner = whole[key] = make(name, head=head, options=options)
        first, second = (stream.data(i, 6, learner.joint) for i in (0, 1))
        train_on(learner, first, 6)
        learner.end_task(first)
        train_on(learner, second, 3)
        save_file({k: v.clone() for k, v in learner.state_dict().items()}, tmp_path / f"{key}.half")
        finish(learner)
    command = [sys.executable, "-c", CONTINUE, str(tmp_path), str(Path(__file__).parents[1])]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for key, learner in whole.items():
        resumed = load_file(tmp_path / f"{key}.end")
        assert learner.state_dict().keys() == resumed.keys()
        for part, value in learner.state_dict().items():
            assert torch.equal(value, resumed[part]), (key, part)


def test_a_state_that_does_not_fit_is_refused() -> None:
    learner = make("ewc")
    with pytest.raises(EFCError, match="missing"):
        learner.load_state_dict(make("sgd").state_dict())
    with pytest.raises(EFCError, match="theta is"):
        learner.load_state_dict(make("ewc", seeds=(0, 1, 2)).state_dict())


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
        (lambda: EFCOptions(preservation="swi"), "preservation: .*'si'"),
        (lambda: EFCOptions(variant="referenz"), "variant: .*'reference'"),
        (lambda: EFCOptions.from_mapping({"preset": "referenz"}), "variant: .*'reference'"),
        (lambda: DEROptions(buffer=2.5), "buffer: must be a whole number, got 2.5"),
        (lambda: DEROptions(buffer=0), "buffer: must be above 0, got 0"),
        (lambda: SGD(SIZES, []), "seeds"),
        (lambda: SGD(SIZES, [0], head="leastsquares"), "head: .*'least_squares'"),
        (lambda: LEARNERS["analytic"](SIZES, [0], head="random"), "head: .*choose one of analytic"),
        (lambda: FullFisher(SIZES, [0], FullFisherOptions(strength=math.inf)), "strength: full_fisher has no import"),
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


def test_every_method_declares_a_space_to_search_around_its_defaults() -> None:
    for name, cls in LEARNERS.items():
        space, options = cls.options_type.space(), cls.options_type()
        assert space, name
        for option, axis in space.items():
            value = getattr(options, option)
            if isinstance(axis[0], str):
                assert value in axis, (name, option)
            else:  # a ridge of zero stands for one that is chosen
                assert axis[0] < value < axis[1] or (option == "ridge" and value == 0), (name, option)


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


def test_the_frozen_control_changes_the_head_alone_after_the_first_task() -> None:
    stream = toy_stream("class", dtype=torch.float64)
    learner = make("frozen", head="random")
    hidden_size = sum(t[0].numel() for t in (*learner.layers.weights[:-1], *learner.layers.biases[:-1]))
    start = learner.theta.clone()
    for number in range(2):
        task = stream.data(number, 10)
        before = learner.theta.clone()
        train_on(learner, task, 10)
        learner.end_task(task)
        moved = learner.theta != before
        head = learner.layout.views(moved).weights[-1]
        assert head.any()
        assert bool(moved[:, :hidden_size].any()) == (number == 0)
    assert not torch.equal(learner.theta, start)


def test_the_frozen_control_without_a_rate_is_ridge_regression_on_random_features() -> None:
    """Against one solution over the data of all tasks, from the parameters as they were drawn."""
    stream, ridge = toy_stream("class", dtype=torch.float64), 1e-3
    options = FrozenOptions(**PLAIN, lr=0.0, ridge=ridge)
    learner = Frozen((6, 8, 6), [0, 1], options, head="analytic", dtype=torch.float64)
    W, b = learner.layers.weights[0].clone(), learner.layers.biases[0].clone()
    for number in range(len(stream.tasks)):
        task = stream.data(number, 5)
        train_on(learner, task, 5)
        learner.end_task(task)
    assert torch.equal(learner.layers.weights[0], W)
    data = [stream.data(number, 0) for number in range(len(stream.tasks))]
    x, y = torch.cat([task.x for task in data]), torch.cat([task.y for task in data])
    for run in range(2):
        h = torch.cat([torch.relu(x @ W[run].T + b[run]), torch.ones(len(x), 1, dtype=x.dtype)], 1)
        penalty = math.sqrt(ridge * len(x)) * torch.eye(9, dtype=x.dtype)
        targets = torch.cat([torch.nn.functional.one_hot(y, 6).double(), torch.zeros(9, 6, dtype=x.dtype)])
        expected = torch.linalg.lstsq(torch.cat([h, penalty]), targets, driver="gelsd").solution.T
        torch.testing.assert_close(learner.layers.weights[-1][run], expected[:, :-1], rtol=1e-8, atol=1e-9)
        torch.testing.assert_close(learner.layers.biases[-1][run], expected[:, -1], rtol=1e-8, atol=1e-9)
    with pytest.raises(EFCError, match="lr: must be above 0"):
        Options(lr=0.0)
