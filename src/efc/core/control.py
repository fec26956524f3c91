"""The controller's gains, the choices that define the dynamics, and the two forms in which control meets a neuron."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from efc.core.activations import Activation, activation
from efc.core.axis import PerRun
from efc.core.modulation import modulation
from efc.core.outputs import check_output
from efc.errors import EFCError, choose

FEEDBACKS = ("jacobian", "least_control", "learned")
FORMS = ("multiplicative", "additive", "bounded")
TARGETS = ("weak", "strong")
HEAD_RULES = ("rates", "signal", "frozen")


@dataclass(frozen=True)
class Controller:
    """Leaky proportional-integral controller: ``dv/dt = (r* - r_L) - alpha v``, ``u = v + k_p (r* - r_L)``.

    At rest ``u = kappa (r* - r_L)`` with ``kappa = 1/alpha + k_p``: at fixed kappa, ``alpha`` and ``k_p`` change the
    path to the equilibrium, never the equilibrium.
    """

    alpha: Tensor
    k_p: Tensor

    @classmethod
    def from_gain(cls, kappa: PerRun, k_p: PerRun = 0.0) -> Controller:
        """The controller with total gain ``kappa``, of which ``k_p`` is proportional and the rest integral."""
        total, proportional = (torch.as_tensor(value, dtype=torch.float64) for value in (kappa, k_p))
        if total.numel() > 1 and proportional.numel() not in (1, total.numel()):
            raise EFCError(f"k_p: give one value or one per run ({total.numel()}), got {proportional.numel()} values")
        if bool(torch.isnan(total).any() or (total < 0).any()):
            raise EFCError(f"kappa: the gain must not be negative, got {_told(total)}")
        if bool((proportional < 0).any() or (proportional > total).any()):
            raise EFCError(f"k_p: must lie between 0 and kappa ({_told(total)}), got {_told(proportional)}")
        return cls(alpha=1.0 / (total - proportional), k_p=proportional)

    def to(self, like: Tensor) -> Controller:
        """The same beside ``like``, so that a solve need not convert it."""
        return Controller(self.alpha.to(like), self.k_p.to(like))

    @property
    def kappa(self) -> Tensor:
        """Total gain at rest."""
        return 1.0 / self.alpha + self.k_p


@dataclass(frozen=True)
class Dynamics:
    """The choices that define the closed system. Combinations that cannot work are refused here, with the reason."""

    activation: str = "relu"
    output: str = "softmax"
    feedback: str = "least_control"
    form: str = "multiplicative"

    def __post_init__(self) -> None:
        sigma = activation(self.activation)
        check_output(self.output)
        choose("feedback", self.feedback, FEEDBACKS)
        choose("form", self.form, FORMS)
        if self.form == "additive" and self.feedback == "least_control":
            raise EFCError(
                "feedback: 'least_control' belongs to multiplicative control; with form='additive' use 'jacobian'"
            )
        if self.form != "additive" and sigma.signed and self.feedback != "least_control":
            raise EFCError(
                f"feedback: {self.feedback!r} with the signed activation {self.activation!r} would push negative rates "
                "the wrong way; use 'least_control', or an activation that is never negative (relu, smooth_relu, "
                "softplus, sigmoid)"
            )

    @property
    def sigma(self) -> Activation:
        return activation(self.activation)


def rate_shift(form: str, f: Tensor, slope: Tensor, psi: Tensor, gamma: Tensor | None) -> Tensor:
    """``r_i - f_i``, computed without cancellation.

    multiplicative: ``r_i = f_i exp(psi_i + gamma_i)``, so the shift is ``f_i expm1(psi_i + gamma_i)``;
    additive: ``r_i = f_i + psi_i + sigma'(a_i) gamma_i`` with ``psi_i = sigma'(a_i) g_i``;
    bounded: ``r_i = f_i (1 + 0.1 tanh(psi_i + gamma_i))``, an ablation.
    """
    if form == "additive":
        return psi if gamma is None else torch.addcmul(psi, slope, gamma)
    return modulation(form, psi if gamma is None else psi + gamma).mul_(f)


def _told(values: Tensor) -> str:
    """Values for a message, each once."""
    return ", ".join(f"{value:g}" for value in dict.fromkeys(values.reshape(-1).tolist()))
