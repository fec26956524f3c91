"""What is said of remembered activity: planted cases, and that the updates are the learner's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from efc.theory.curvature import cosine, fisher
from efc.theory.experiments import remembered_activity as experiment
from efc.theory.finding import Verdict
from efc.theory.remembered import Kronecker, moments
from efc.theory.situation import Situation

H, F = Verdict.HOLDS, Verdict.FAILS


def numbers(
    product: dict[str, tuple[float, float]], cosines: dict[str, float], bound: dict[str, Any]
) -> dict[str, Any]:
    products = {name: list(product.get(name, (0.1, 0.1))) for name in experiment.LABELS}
    steps = {step: {name: [[value], [value]] for name, value in cosines.items()} for step in experiment.STEPS}
    return {
        "steps": [0, 10], "dampings": [1.0], "pull": 0.3, "products": [products] * 3, "cosines": [steps] * 3,
        "bounds": [[bound, bound]] * 3, "objective": [[2.0, 2.0 * bound["shift"]]] * 3,
    }  # fmt: skip


def test_judged() -> None:
    cosines = {"gradient": 0.3, "penalised": 0.3, "diagonal": 0.3, "remembered": 0.95, "remembered, penalised": 0.4,
               "full": 0.2}  # fmt: skip
    bound = {"forgotten": 0.1, "bound": 0.2, "bound_of_R": 0.4, "shift": 0.5, "rho": 1.0, "R": 1.0}
    good = experiment.judge(numbers({"remembered": (0.5, 0.5)}, cosines, bound))
    assert [claim.verdict for claim in good] == [H] * 6
    product = {"remembered": (0.2, 0.1), "diagonal": (0.3, 0.3), "task_B": (0.2, 0.2)}
    broken = bound | {"forgotten": 9.0, "bound": 5.0, "bound_of_R": 5.0, "shift": 1.5}
    bad = experiment.judge(numbers(product, cosines | {"remembered": 0.1, "remembered, penalised": 0.1}, broken))
    assert [claim.verdict for claim in bad] == [F] * 6


def test_planted_updates_are_recognised(tiny: Situation) -> None:
    """A natural gradient of the stored curvature has a cosine of one with its candidate, at its damping alone."""
    theta = tiny.theta_A[0]
    stored = Kronecker(tiny.layout, moments(tiny, theta, tiny.A.x))
    g, moved = torch.randn_like(theta), 0.1 * torch.randn_like(theta)
    natural = stored.damped_inverse(g, 1e-3 * stored.norm)
    found = experiment.candidates(stored, fisher(tiny, 0), tiny.diagonal()[0], g, natural, moved)
    assert max(found["remembered"]) == pytest.approx(1.0)
    assert found["remembered"].index(max(found["remembered"])) == experiment.DAMPINGS.index(1e-3)
    assert max(found["gradient"]) < 0.99
    descent = g + experiment.PULL * stored.times(moved)
    found = experiment.candidates(stored, fisher(tiny, 0), tiny.diagonal()[0], g, descent, moved)
    assert found["penalised"][0] == pytest.approx(1.0)


def test_updates_are_the_learners(tiny32: Situation) -> None:
    """At ``theta_A*`` nothing but the new rows is pulled; the natural step is the same, but projected."""
    s = tiny32
    course = torch.stack([s.theta_A, s.theta_A + 0.05])
    plain, natural = (experiment._updates(s, course, given) for given in experiment.STEPS.values())
    assert plain.shape == (2, *s.theta_A.shape)
    for run in range(2):
        A = moments(s, s.theta_A[run], s.A.x)
        for k in range(2):
            expected = Kronecker(s.layout, A).damped_inverse(plain[k, run].double(), 100.0) * 100.0
            assert cosine(natural[k, run], expected) == pytest.approx(1.0, abs=1e-4)
    held = experiment.held_at(s, s.theta_A[0])
    rows = s.layout.views(held.unsqueeze(0))
    assert float(rows.weights[-1][:, s.classes_B].abs().max()) == 0
    torch.testing.assert_close(
        rows.weights[-1][:, s.classes_A][0], s.layout.views(s.theta_A).weights[-1][0, s.classes_A]
    )


def test_measured_and_drawn(tiny32: Situation) -> None:
    found = experiment.measure(tiny32, lambda _: None)
    assert len(found["products"]) == 2
    products = found["products"][0]
    assert products["remembered"][0] == pytest.approx(products["recomputed"][0])
    assert products["remembered"][-1] != pytest.approx(products["recomputed"][-1], rel=1e-6)
    assert all(point["forgotten"] <= point["bound"] + 1e-9 for seed in found["bounds"] for point in seed)
    assert found["bounds"][0][0]["forgotten"] == 0
    assert len(experiment.judge(found)) == 6
    assert len(experiment.draw(found).axes) == 4
