"""First-order response against finite differences of the equations themselves."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from efc.core.linear import control_jacobian, loop_jacobian, preservation_effect, solve_gain, steady_state_u
from efc.core.system import System, free_activity, free_slopes, sent, sweep, sweep_sent
from support.helpers import Problem

FORMS = [{"feedback": "jacobian"}, {"feedback": "learned"}, {"form": "additive", "feedback": "jacobian"},
         {"output": "linear", "feedback": "jacobian"}]  # fmt: skip


def compared_with_target(system: System, u: Tensor) -> Tensor:
    """One ascending pass with the free state's slopes held, as the Jacobian holds them."""
    return system.target - sweep(system, u, free_slopes(system)).error


@pytest.mark.parametrize("dynamics", FORMS, ids=lambda d: "-".join(d.values()))
@pytest.mark.parametrize("sizes", [(5, 4), (5, 6, 4), (5, 6, 7, 4)])
def test_the_jacobian_is_the_derivative_by_u(dynamics: dict[str, str], sizes: tuple[int, ...]) -> None:
    problem = Problem(sizes=sizes, beta=0.0, dynamics=dynamics)
    system = problem.system()
    J = control_jacobian(system, free_activity(system))
    step = 1e-6
    for k in range(sizes[-1]):
        u = torch.zeros_like(system.free_error)
        u[..., k] = step
        difference = (compared_with_target(system, u) - compared_with_target(system, -u)) / (2 * step)
        torch.testing.assert_close(J[..., k], difference, atol=1e-7, rtol=1e-6)


SMOOTH = [
    {"feedback": "jacobian", "activation": "softplus"},
    {"feedback": "least_control", "activation": "smooth_relu"},
    {"feedback": "least_control", "activation": "tanh"},
    {"feedback": "least_control", "activation": "sigmoid", "output": "linear"},
    {"feedback": "jacobian", "form": "additive", "activation": "tanh"},
    {"feedback": "jacobian", "form": "bounded", "activation": "softplus", "output": "linear_ce"},
]


@pytest.mark.parametrize("dynamics", SMOOTH, ids=lambda d: "-".join(d.values()))
@pytest.mark.parametrize("sizes", [(5, 4), (5, 6, 4), (5, 6, 7, 3, 4)])
def test_the_loop_jacobian_is_the_derivative_of_a_whole_sweep(dynamics: dict[str, str], sizes: tuple[int, ...]) -> None:
    """By all that goes round: ``u`` and what layers 2..L-1 send down, at a state where nothing is small."""
    system = Problem(sizes=sizes, R=2, B=3, kappa=0.7, beta=0.3, lam=1.0, dynamics=dynamics).system()
    widths = [sizes[-1], *sizes[2:-1]]
    state = torch.randn(2, 3, sum(widths), generator=torch.Generator().manual_seed(1), dtype=torch.float64).mul_(0.3)
    state = state.to(system.kappa.device)

    def answer(v: Tensor) -> Tensor:
        u, *signals = v.split(widths, -1)
        activity = sweep_sent(system, u, signals)
        return torch.cat([system.kappa * activity.error, *sent(activity)], -1)

    u, *signals = state.split(widths, -1)
    J = loop_jacobian(system, sweep_sent(system, u, signals), u)
    step = 1e-6
    for k in range(sum(widths)):
        ahead, behind = state.clone(), state.clone()
        ahead[..., k] += step
        behind[..., k] -= step
        difference = (answer(ahead) - answer(behind)) / (2 * step)
        torch.testing.assert_close(J[..., k], difference, atol=1e-7, rtol=1e-6)


def test_without_preservation_there_is_no_effect_and_with_it_it_is_of_first_order() -> None:
    none = Problem(beta=0.0).system()
    assert preservation_effect(none, free_activity(none)) is None
    wrong = []
    for beta in (1e-3, 5e-4):
        system = Problem(beta=beta).system()
        effect = preservation_effect(system, free_activity(system))
        felt = compared_with_target(system, torch.zeros_like(system.free_error)) - system.compared_free
        assert effect is not None
        wrong.append((effect - felt).abs().max().item())
    assert 3.5 < wrong[0] / wrong[1] < 4.5  # what is left is of second order


def test_the_steady_state_solves_its_equation() -> None:
    """``u = kappa (r* - p - gamma_eff - J u)``."""
    system = Problem().system()
    at, u = free_activity(system), steady_state_u(system)
    effect, J = preservation_effect(system, at), control_jacobian(system, at)
    assert effect is not None
    expected = system.kappa * (system.free_error - effect - torch.einsum("rbij,rbj->rbi", J, u))
    torch.testing.assert_close(u, expected)


def test_a_singular_or_broken_sample_is_nan_and_its_neighbours_are_solved() -> None:
    kappa = torch.ones(1, 1, 1, dtype=torch.float64)
    J = torch.zeros(1, 3, 2, 2, dtype=torch.float64)
    J[0, 1] = -torch.eye(2)  # I + J is zero
    J[0, 2, 0, 0] = float("inf")
    found = solve_gain(kappa, J, torch.ones(1, 3, 2, dtype=torch.float64))
    assert found[0, 0].tolist() == [1.0, 1.0]
    assert torch.isnan(found[0, 1:]).all()
