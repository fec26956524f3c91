"""The ten experiments, in the order of the page docs/theory.md."""

from __future__ import annotations

from efc.theory.experiments import (
    bounds,
    curvature,
    forgetting,
    interference,
    natural_gradient,
    regimes,
    sample_specificity,
)
from efc.theory.finding import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        forgetting,
        curvature,
        natural_gradient,
        interference,
        regimes,
        bounds,
        sample_specificity,
    )
}
