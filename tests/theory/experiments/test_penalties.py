"""What is said of penalties: planted cases, true and false, and the gradients against the split of single samples."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from efc.theory.experiments import penalties
from efc.theory.experiments.interference import split
from efc.theory.finding import Verdict
from efc.theory.penalised import Penalised, rest
from efc.theory.situation import Situation

H, P, F = Verdict.HOLDS, Verdict.IN_PART, Verdict.FAILS


def test_what_varies() -> None:
    """The same interference for all samples can be cancelled; opposite ones leave everything."""
    row = torch.tensor([[1.0, 2.0]])
    assert penalties.varying(row.repeat(5, 1)) == pytest.approx(0.0)
    assert penalties.varying(torch.cat([row, -row])) == pytest.approx(1.0)
    assert penalties.varying(torch.eye(4)) == pytest.approx(0.75)


def test_the_gradient_without_interference(tiny: Situation) -> None:
    s, theta = tiny, tiny.theta_A
    x, y = s.probes.x, s.probes.y
    for run in range(2):
        of_B, of_A = split(s, theta[run], x, y)
        whole = penalties.outer_gradient(s, theta, x.unsqueeze(0), y.unsqueeze(0))[run]
        alone = penalties.outer_gradient(s, theta, x.unsqueeze(0), y.unsqueeze(0), keep_interference=False)[run]
        torch.testing.assert_close(whole, (of_B + of_A).mean(0))
        torch.testing.assert_close(alone, of_B.mean(0))
        assert float((whole - alone).norm()) > 1e-3


def test_removing_the_interference_changes_the_course(tiny: Situation) -> None:
    found = {kind: penalties.suppression(tiny, kind) for kind in penalties.REMOVED}
    losses = [found[kind]["loss_A"][0] for kind in penalties.REMOVED]
    assert len({round(loss, 6) for loss in losses}) == 3
    assert abs(losses[1] - losses[2]) < abs(losses[0] - losses[2])  # most of it is the mean


def test_a_stationary_point_is_told_from_another(tiny: Situation) -> None:
    s, theta = tiny, tiny.theta_A[0]
    held = Penalised(s, s.probes, theta, torch.full_like(theta, 50.0))
    end, left = rest(held)
    assert left < 1e-4
    assert penalties.at_rest(held, end)["residual"] < 1e-3
    assert penalties.at_rest(held, theta)["residual"] > 0.1
    found = penalties.formulas(held, end)
    assert found["coupled"] < found["uncoupled"]


def numbers(varying: float, harm: tuple[float, float, float], point: dict[str, Any], minimum: bool) -> dict[str, Any]:
    spread = (0.0, 0.001, -0.001)
    return {
        "stiffness": list(penalties.STIFFNESS), "varying": [varying + e for e in spread], "idle": [0.2] * 3,
        "suppression": {
            kind: {"loss_A": [value + e for e in spread]} for kind, value in zip(penalties.REMOVED, harm, strict=True)
        },
        "rest": [[point] * 4] * 3, "minimum_as_printed": [[minimum] * 4] * 3,
    }  # fmt: skip


def test_judged() -> None:
    point = {"residual": 1e-6, "settled": True, "varying": 0.8, "against_interference": 0.95,
             "coupled": 0.01, "uncoupled": 0.05}  # fmt: skip
    good = penalties.judge(numbers(0.8, (3.0, 2.5, 1.0), point, True))
    assert [claim.verdict for claim in good] == [H] * 4
    far = {"residual": 0.3, "settled": True, "varying": 0.0, "against_interference": 0.1,
           "coupled": 0.9, "uncoupled": 2.0}  # fmt: skip
    bad = penalties.judge(numbers(0.0, (3.0, 1.0, 1.0), far, False))
    assert [claim.verdict for claim in bad] == [F] * 4
    nowhere = penalties.judge(numbers(0.8, (3.0, 2.5, 1.0), point | {"settled": False, "coupled": None}, True))
    assert nowhere[2].verdict == P  # nothing has come to rest: the corollary itself was not seen
    assert nowhere[3].verdict == P


def test_measured_and_drawn(tiny: Situation) -> None:
    found = penalties.measure(tiny, lambda _: None)
    assert len(found["rest"]) == 2
    assert [len(seed) for seed in found["rest"]] == [4, 4]
    assert len(penalties.judge(found)) == 4
    assert len(penalties.draw(found).axes) == 3
