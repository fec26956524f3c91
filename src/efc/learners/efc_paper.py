"""Equilibrium Fisher Control as the paper has it: gamma from a running diagonal Fisher, no remembered activity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from efc.core.axis import PerRun
from efc.core.preservation import NORMALISE
from efc.learners.efc import EFC, EFCOptions
from efc.learners.options import Values, choice, learning_rate, number
from efc.learners.variants import ABLATIONS, AS_PAPER

OF_THE_PAPER = {
    name: {key: value for key, value in variant.items() if AS_PAPER.get(key) != value}
    for name, variant in ABLATIONS.items()
}
"""The named variants, less what is the paper's anyway: options chosen for a data set then stay."""


@dataclass(frozen=True)
class EFCPaperOptions(EFCOptions):
    """:class:`EFCOptions` with the defaults of the variant ``paper``."""

    variants: ClassVar[Mapping[str, Values]] = OF_THE_PAPER

    lr: PerRun = learning_rate(AS_PAPER["lr"])
    pull: PerRun = number(
        AS_PAPER["pull"], inclusive=True, doc="weight of a pull of remembered activity: none", changeable=True
    )
    beta: PerRun = number(
        AS_PAPER["beta"],
        inclusive=True,
        search=(1e-3, 1e5),
        doc="strength of the preservation signal gamma",
        changeable=True,
    )
    head_beta: PerRun = number(
        AS_PAPER["head_beta"], inclusive=True, search=(0.1, 1e3), doc="further factor of the head's preservation signal"
    )
    normalise: str = choice(
        AS_PAPER["normalise"], NORMALISE, search=("none", "neuron"), doc="how importances are scaled"
    )


class EFCPaper(EFC):
    """The paper's method, a row of its own: the same as :class:`EFC` with ``variant="paper"``."""

    name = "efc-paper"
    recordable = True
    options_type = EFCPaperOptions
