"""The local weight change, read off an equilibrium."""

from __future__ import annotations

import torch
from torch import Tensor

from efc.core.control import HEAD_RULES
from efc.core.network import Parameters, outer_sums
from efc.core.outputs import output_shift
from efc.core.solution import Solution
from efc.errors import choose

ON_FAILURE = ("keep", "zero")


def postsynaptic(solution: Solution, head_rule: str = "rates") -> tuple[Tensor, ...]:
    """Per sample and neuron, ``r_i - f_i`` of every layer.

    Hidden layers: ``f_i expm1(psi_i + gamma_i)``. Head: ``r_L - softmax(z)`` (``head_rule="rates"``) or
    ``psi_L + gamma_L`` (``"signal"``), or nothing at all (``"frozen"``).
    """
    choose("head_rule", head_rule, HEAD_RULES)
    at, dynamics = solution.activity, solution.system.dynamics
    if head_rule == "rates":
        head = output_shift(dynamics.output, dynamics.form, at.z, at.signal)
    else:
        head = at.signal if head_rule == "signal" else torch.zeros_like(at.z)
    return (*(layer.shift for layer in at.hidden), head)


def weight_change(
    solution: Solution,
    out: Parameters,
    head_rule: str = "rates",
    on_failure: str = "keep",
    scale: float = 1.0,
    add: bool = False,
) -> Parameters:
    """Write ``dW_i = mean_b (r_i - f_i) r_{i-1}^T`` and ``db_i = mean_b (r_i - f_i)`` into ``out`` and return it.

    Or ``add`` it to what is there. Times ``scale``: an optimiser takes *minus* the change for a gradient. A sample that
    did not settle counts as it stands (``"keep"``) or not at all (``"zero"``); one that is not finite never counts. The
    mean is over the whole batch in any case.
    """
    choose("on_failure", on_failure, ON_FAILURE)
    post, pre = postsynaptic(solution, head_rule), (solution.system.free.r[0], *solution.activity.rates)
    bad = solution.lost if on_failure == "keep" else ~solution.settled
    if bad is not None:
        mask = bad.unsqueeze(-1)
        post = tuple(torch.where(mask, torch.zeros_like(t), t) for t in post)
        pre = tuple(torch.where(mask, torch.zeros_like(t), t) for t in pre)
    outer_sums(post, pre, out, scale / solution.result.shape[1], add)
    return out
