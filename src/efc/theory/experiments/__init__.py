"""The twelve experiments, in the order of the page docs/theory.md."""

from __future__ import annotations

from efc.theory.experiments import (
    bounds,
    curvature,
    equilibrium,
    forgetting,
    interference,
    least_control,
    natural_gradient,
    penalties,
    regimes,
    remembered_activity,
    sample_specificity,
    steady_state,
)
from efc.theory.finding import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        forgetting,
        curvature,
        steady_state,
        natural_gradient,
        least_control,
        interference,
        penalties,
        regimes,
        bounds,
        sample_specificity,
        equilibrium,
        remembered_activity,
    )
}
