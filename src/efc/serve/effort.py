"""The control effort that arriving samples ask for: how hard the controller pulls at each layer to get their label."""

from __future__ import annotations

import torch
from torch import Tensor

from efc.classifiers.growing import Growing
from efc.core.control import Controller
from efc.core.network import Parameters
from efc.core.system import build
from efc.learners import EFC
from efc.serve.measures import Effort

MOST = 8
"""Samples of a batch that are measured, the first ones."""


@torch.no_grad()
def effort_of(growing: Growing, x: Tensor, outputs: Tensor) -> Effort | None:
    """Mean ``|psi_i|`` and ``|gamma_i|`` of inputs x (N, d) and their outputs (N,); None where the method has none.

    It is the equilibrium of the learning rule, solved once more and for nothing: no weight changes by it. Every sample
    is a run of its own, because a head that reads the inputs too moves the output's threshold by another amount for
    each of them.
    """
    learner = growing.learner
    if not isinstance(learner, EFC) or learner.feedback is not None or learner.active.stop == 0:
        return None
    known = outputs < learner.active.stop
    x, outputs = x[known][:MOST].to(learner.theta.device), outputs[known][:MOST].to(learner.theta.device)
    if not len(outputs):
        return None
    n, options = len(outputs), learner.options
    ready = learner.standardised(x, learner.theta.dtype)
    theta, pulls = learner.layers.active(learner.active), learner.preservation_terms()
    biases = [b.expand(n, -1).clone() for b in theta.biases]
    beside = learner.head_policy.beside(ready[None], learner.active)
    if beside is not None:
        biases[-1] += beside[0]
    each = Parameters(tuple(W.expand(n, -1, -1).contiguous() for W in theta.weights), tuple(biases))
    if pulls is not None:
        pulls = Parameters(*(tuple(t.expand(n, *t.shape[1:]).contiguous() for t in group) for group in pulls))
    controller = Controller.from_gain(options.kappa, options.k_p)
    y = learner.one_hot(outputs, learner.active)[:, None]
    system = build(learner.dynamics, each, ready[:, None], y, controller, options.lam, options.target, terms=pulls)
    norms = learner.solver.solve(system).effort().double().mean(0).tolist()
    psi, gamma = norms[: len(norms) // 2], norms[len(norms) // 2 :]
    return Effort([float(f"{v:.4g}") for v in psi], [float(f"{v:.4g}") for v in gamma])
