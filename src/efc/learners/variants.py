"""Named variants of EFC: the paper's method, the authors' code, and ablations."""

from __future__ import annotations

from efc.learners.options import Values

AS_PAPER: Values = {
    "preservation": "running_ewc", "normalise": "none", "beta": 10.0, "head_beta": 10.0, "pull": 0.0, "lr": 1e-4,
}  # fmt: skip
"""The paper's preservation: a running diagonal Fisher in the equilibrium, and nothing beside it."""

PLAIN_ITERATION: Values = {"measure": "absolute", "tol": 1e-4, "max_steps": 500, "enough": 0.99}
"""The stopping rule of the authors' code, ``|du| < 1e-4`` within 500 steps, but for a hundredth of the batch: there a
single unit that switches on and off keeps the whole batch for all 500, and then is dropped."""

ABLATIONS: dict[str, Values] = {
    "paper": AS_PAPER,
    "reference": {
        **AS_PAPER, "output": "linear_ce", "form": "bounded", "feedback": "jacobian", "head_rule": "frozen",
        "kappa": 2.0, "k_p": 2.0, "normalise": "neuron", "beta": 1.0, "head_beta": 1.0, "on_failure": "zero",
        "lr": 3e-5, "schedule": "constant", "initial": "uniform_biases", "first_head": "drawn", "inputs": "scaled",
        "input_mean": 0.1307, "input_deviation": 0.3081, "solver": "fixed_point", "solver_options": PLAIN_ITERATION,
    },
    "beta_0": {**AS_PAPER, "beta": 0.0, "anchor": 0.0},
    "frozen_head": {**AS_PAPER, "head_rule": "frozen"},
    "linear_output": {**AS_PAPER, "output": "linear"},
    "additive": {**AS_PAPER, "form": "additive", "feedback": "jacobian"},
}  # fmt: skip
"""Named variants. ``paper`` is the paper's method: no remembered activity. The others are ablations of it.
``reference`` behaves as the authors' published code does, with its settings for Class-IL on MNIST: rates modulated by
``1 + 0.1 tanh``, a linear output under the softmax's error, proportional control, a head that never learns and is
random for the first task, unsettled samples dropped, pixels in their units, a constant rate. In Task-IL the first
task's rows are fitted there, too, and all are halved: ``first_head=set``, ``head_scale=0.5``."""
