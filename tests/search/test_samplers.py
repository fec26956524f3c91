"""Sweeps: the same settings alone, equal budgets, a preset that can be used, an Optuna study that goes on."""

from __future__ import annotations

import json
import math
import sqlite3
import subprocess
from pathlib import Path

import pytest
import yaml

from efc.errors import EFCError
from efc.learners import EFC, LEARNERS, SGD
from efc.search.samplers import grid, ranked, run_off, scattered, search
from efc.search.space import around, on_border, parse_axes, space_of
from support import command

SPACE = {"lr": (1e-4, 1e-2), "beta": (1.0, 100.0), "feedback": ("jacobian", "least_control")}


def efc(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return command.efc(*arguments, cwd=cwd, columns=120)


@pytest.mark.parametrize("n", [1, 5, 64])
def test_points_lie_in_the_space_and_fill_it(n: int) -> None:
    points = scattered(SPACE, n)
    assert len(points) == n
    assert points == scattered(SPACE, n)
    for point in points:
        assert 1e-4 <= point["lr"] <= 1e-2
        assert point["feedback"] in SPACE["feedback"]
    if n == 64:
        low = sum(point["lr"] < 1e-3 for point in points)
        assert 28 <= low <= 36
        assert len({point["beta"] for point in points}) > 40


@pytest.mark.parametrize(("n", "size"), [(1, 2), (2, 2), (8, 8), (17, 8), (18, 18), (64, 50)])
def test_the_grid_is_the_finest_that_fits(n: int, size: int) -> None:
    assert len(grid(SPACE, n)) == size
    assert len({tuple(point.items()) for point in grid(SPACE, n)}) == size


def test_narrowing_spends_half_of_its_budget_around_the_best() -> None:
    asked: list[int] = []

    def score(settings: list[dict[str, float]], epochs: int) -> list[float]:
        asked.append(len(settings))
        return [-abs(math.log(s["lr"] / 2e-3)) - abs(math.log(s["beta"] / 30)) for s in settings]

    plain = max(search("random", SPACE, 32, 1, score))[0]
    tried = search("narrowing", SPACE, 32, 1, score)
    assert asked == [32, 16, 16]
    assert max(tried, key=lambda entry: entry[0])[0] > plain
    box = around(SPACE, {"lr": 1e-4, "beta": 10.0, "feedback": "jacobian"})
    assert box["lr"][0] == 1e-4
    assert box["feedback"] == ("jacobian",)


def test_every_method_can_be_searched_and_the_analytic_heads_ridge_is() -> None:
    for cls in LEARNERS.values():
        assert space_of(cls, cls.shipped_head)
    assert "ridge" in space_of(EFC, "analytic")
    assert "ridge" in space_of(EFC, "compensated")
    assert "ridge" in space_of(EFC, "input_compensated")
    assert "ridge" not in space_of(EFC, "least_squares")

    class Fixed(SGD):
        class options_type(SGD.options_type):  # type: ignore[name-defined, misc] # noqa: N801
            @classmethod
            def space(cls) -> dict[str, tuple[float, float]]:
                return {}

    with pytest.raises(EFCError, match="declares no space"):
        space_of(Fixed, "random")


SWEEP = ["sweep", "--method", "ewc", "--trials", "6", "--epochs", "2", "--hidden", "12"]


def scores(folder: Path) -> dict[str, float]:
    rows = sqlite3.connect(folder / "efc.sqlite").execute("select settings, accuracy from runs").fetchall()
    return {json.dumps(json.loads(text)["options"], sort_keys=True): accuracy for text, accuracy in rows}


def test_on_the_axis_equals_one_by_one_and_the_preset_can_be_used(tmp_path: Path) -> None:
    together = efc(*SWEEP, "--out", "axis", cwd=tmp_path)
    assert together.returncode == 0, together.stderr
    alone = efc(*SWEEP, "--packer", "none", "--out", "none", cwd=tmp_path)
    assert alone.returncode == 0, alone.stderr
    axis, one = scores(tmp_path / "axis"), scores(tmp_path / "none")
    assert axis.keys() == one.keys()
    assert len(axis) == 6
    for key, value in axis.items():
        assert abs(value - one[key]) < 0.5
    preset = yaml.safe_load((tmp_path / "axis" / "digits.yaml").read_text())["class"]["ewc"]["input_compensated"]
    assert preset["settings_tried"] == 6
    assert preset["best"][0] == [preset["validation_accuracy"], preset["options"]]
    assert [score for score, _ in preset["best"]] == preset["scores"][:5]
    assert preset["command"].startswith("efc sweep --method ewc")
    assert preset["validation_accuracy"] == pytest.approx(max(axis.values()), abs=0.01)
    used = efc(
        "run", "--methods", "ewc", "--preset", "axis/digits.yaml", "--seeds", "1", "--epochs", "1", "--hidden", "8",
        "--out", "o", cwd=tmp_path,
    )  # fmt: skip
    assert used.returncode == 0, used.stderr
    options = yaml.safe_load((tmp_path / "o" / "config.yaml").read_text())["rows"][0]["options"]
    assert {key: options[key] for key in preset["options"]} == preset["options"]


def test_the_optuna_study_goes_on(tmp_path: Path) -> None:
    command = [*SWEEP[:3], "--epochs", "4", "--hidden", "8", "--sampler", "optuna", "--out", "s"]
    first = efc(*command, "--trials", "32", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    trials = "select count(*) from trials where state in ('COMPLETE', 'PRUNED')"
    assert sqlite3.connect(tmp_path / "s" / "efc.sqlite").execute(trials).fetchone() == (32,)
    runs = "select count(*) from runs"
    before = sqlite3.connect(tmp_path / "s" / "efc.sqlite").execute(runs).fetchone()[0]
    assert before > 32  # a quarter of the epochs first, then those that were not pruned
    assert before < 64
    again = efc(*command, "--trials", "36", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert sqlite3.connect(tmp_path / "s" / "efc.sqlite").execute(trials).fetchone() == (36,)
    after = sqlite3.connect(tmp_path / "s" / "efc.sqlite").execute(runs).fetchone()[0]
    assert before < after <= before + 8


def test_axes_given_by_hand() -> None:
    space = parse_axes(["beta=1e-3:1e4", "normalise=none,neuron"])
    assert space == {"beta": (1e-3, 1e4), "normalise": ("none", "neuron")}
    assert set(space_of(EFC, "least_squares", space)) == {"beta", "normalise"}
    assert set(space_of(EFC, "analytic", space)) == {"ridge", "beta", "normalise"}


def test_a_value_near_the_end_of_its_axis_is_on_the_border() -> None:
    space = {"lr": (1e-6, 1e-2), "name": ("a", "b")}
    assert on_border(space, {"lr": 1.1e-6, "name": "a"}) == ["lr"]
    assert on_border(space, {"lr": 9e-3, "name": "a"}) == ["lr"]
    assert on_border(space, {"lr": 1e-4, "name": "b"}) == []


def test_the_run_off_is_decided_by_further_seeds() -> None:
    """A lucky setting wins the search, a good one the run-off; the others keep their place behind."""
    tried = [(80.0, {"lr": 1.0}), (90.0, {"lr": 2.0}), (85.0, {"lr": 3.0}), (float("nan"), {"lr": 4.0})]
    asked: list[dict[str, float]] = []

    def again(settings: list[dict[str, float]]) -> list[float]:
        asked.extend(settings)
        return [60.0, 84.0]

    assert [s["lr"] for _, s in ranked(tried)] == [2.0, 3.0, 1.0, 4.0]
    order = run_off(tried, 2, again, (1, 3))
    assert asked == [{"lr": 2.0}, {"lr": 3.0}]
    assert [s["lr"] for _, s in order] == [3.0, 2.0, 1.0, 4.0]
    assert order[0][0] == pytest.approx((85 + 3 * 84) / 4)


def test_several_methods_at_once_with_a_run_off(tmp_path: Path) -> None:
    command = ["sweep", "--method", "sgd,frozen", "--head", "least_squares,analytic", "--trials", "3", "--epochs", "1",
               "--finalists", "2", "--final-seeds", "2", "--device", "cpu", "--out", "s",
               "--save-as", "mine"]  # fmt: skip
    done = efc(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = yaml.safe_load((tmp_path / "s" / "digits.yaml").read_text())
    entry = found["class"]["mine"]["analytic"]
    assert entry["settings_tried"] == 3
    assert "further seeds" in entry["how"]
    assert set(entry["searched"]) == {"lr", "ridge"}
    seeds = sqlite3.connect(tmp_path / "s" / "efc.sqlite").execute("select count(*) from runs").fetchone()[0]
    assert seeds == 4 * (3 + 2 * 2)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--sampler", "annealing"], "--sampler: unknown value 'annealing'"),
        (["--packer", "all"], "--packer: unknown value 'all'"),
        (["--trials", "0"], "--trials: must be at least 1, got 0"),
        (["--method", "ewcc"], "methods: unknown value 'ewcc'"),
        (["--search", "beta=10:1"], "--search: expected NAME=LOW:HIGH with 0 < LOW < HIGH"),
        (["--search", "beta"], "--search: expected NAME=LOW:HIGH with 0 < LOW < HIGH"),
        (["--search", "betta=1:10"], "ewc.betta: no such option"),
        (["--final-seeds", "0"], "--final-seeds: must be at least 1, got 0"),
        (["--sampler", "optuna", "--storage", "nonsense://x"], "--storage: cannot open nonsense://x"),
    ],
)
def test_mistakes(arguments: list[str], says: str, tmp_path: Path) -> None:
    done = efc(*SWEEP, *arguments, "--out", "s", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert f"efc: {says}" in done.stderr
    assert "Traceback" not in done.stderr
