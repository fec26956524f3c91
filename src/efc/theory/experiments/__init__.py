"""The ten experiments, in the order of the page docs/theory.md."""

from __future__ import annotations

from efc.theory.experiments import curvature, equilibrium, least_control, steady_state
from efc.theory.finding import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT for module in (curvature, steady_state, least_control, equilibrium)
}
