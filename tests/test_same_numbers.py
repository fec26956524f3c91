"""The commands still say what they said before the modules were moved into rooms: numbers recorded then, on the digits.

`python tests/test_same_numbers.py` prints what the present code says, in the form of the recorded file.
"""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.command import efc

RECORDED = Path(__file__).parent / "recorded" / "numbers_before_the_rooms.json"
SHORT = ("--seeds", "2", "--epochs", "1")
MEASURES = ("accuracy", "average_incremental", "forgetting", "bwt", "fwt")


def succeed(*arguments: str, cwd: Path) -> str:
    done = efc(*arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def of_rows(text: str) -> dict[str, Any]:
    """The measures of every row of a results document, seed by seed."""
    rows = json.loads(text)["rows"]
    name = ("method", "variant", "head", "scenario")
    return {" ".join(row[key] for key in name): {m: row[m]["per_seed"] for m in MEASURES} for row in rows}


def as_then(*methods: str) -> list[str]:
    """The defaults of the time."""
    options = ("inputs=raw", "drift=trusted", "skip=off")
    return [part for method in methods for option in options for part in ("--set", f"{method}.{option}")]


HEADS = {
    "least_squares": "efc,efc-paper,ewc,online_ewc,si,mas,full_fisher,frozen,analytic",
    "zero": "activity,activity_ewc",
    "random": "der,derpp,sgd,joint",
}
"""The head of each method that named none, at the time."""


def run(folder: Path) -> Any:
    found = {}
    for head, methods in HEADS.items():
        given = ("--methods", methods, "--head", head, "--scenario", "class,task,domain", *as_then(*methods.split(",")))
        found |= of_rows(succeed("run", *given, *SHORT, "--json", cwd=folder))
    return found


def heads(folder: Path) -> Any:
    every = "random,zero,least_squares,analytic,compensated,input_compensated"
    given = ("--methods", "efc,sgd", "--head", every, *as_then("efc", "sgd"))
    return of_rows(succeed("run", *given, *SHORT, "--json", cwd=folder))


REFERENCE = (
    "beta=0.1", "lr=1e-3", "schedule=cosine", "initial=he", "first_head=set", "solver=anderson",
    "solver_options={measure: relative, tol: 1e-2, max_steps: 4, enough: 1.0}",
)  # fmt: skip
"""The variant `reference` of the time, which did not do as the authors' code does."""


def _then_reference(variant: str) -> list[str]:
    told = [f"{method}.{option}" for method in ("efc", "efc-paper") for option in REFERENCE]
    return [part for option in told for part in ("--set", option)] if variant == "reference" else []


def variants(folder: Path) -> Any:
    found = {}
    for word in ("paper", "reference", "beta_0", "frozen_head", "linear_output", "additive"):
        given = (
            "--methods",
            "efc,efc-paper",
            *_then_reference(word),
            "--set",
            f"efc.preset={word}",
            "--set",
            f"efc-paper.preset={word}",
        )
        then = ("--head", "least_squares", *as_then("efc", "efc-paper"))
        found |= of_rows(succeed("run", *given, *then, *SHORT, "--json", cwd=folder))
    return found


def bench(folder: Path) -> Any:
    given = ("--methods", "efc,ewc", "--head", "least_squares", "--scenarios", "class,task", "--workers", "1")
    found = of_rows(succeed("bench", *given, *SHORT, "--out", "bench", "--json", cwd=folder))
    lines = csv.DictReader(succeed("runs", "export", "--in", "bench", cwd=folder).splitlines())
    exported = sorted((line["method"], line["scenario"], line["seed"], float(line["accuracy"])) for line in lines)
    succeed("report", "bench", cwd=folder)
    page = re.search(r'id="data">(.*?)</script>', (folder / "bench/report.html").read_text("utf-8"), re.S)
    assert page is not None
    told = sorted(json.loads(page.group(1))["rows"], key=lambda row: (row["scenario"], row["method"]))
    shown = [row["accuracy"]["mean"] for row in told]
    succeed("plot", "bench", "--kind", "matrix", "--format", "svg", cwd=folder)
    cells = re.findall(r">(\d+)</text>", (folder / "bench/matrix.svg").read_text("utf-8"))
    return {"rows": found, "exported": [list(line) for line in exported], "page": shown, "figure": cells}


def sweep(folder: Path) -> Any:
    succeed("sweep", "--method", "efc,ewc", "--head", "least_squares", *as_then("efc", "ewc"), "--trials", "4",
            "--hidden", "100,100", "--set", "batch_size=32", "--epochs", "1", "--finalists", "2",
            "--final-seeds", "2", "--preset", "found.yaml", cwd=folder)  # fmt: skip
    found = yaml.safe_load((folder / "found.yaml").read_text("utf-8"))["class"]
    return {
        f"{method} {head}": {"best": entry["best"], "scores": entry["scores"]}
        for method, heads in found.items()
        for head, entry in heads.items()
    }


def theory(folder: Path) -> Any:
    found = json.loads(succeed("theory", "natural-gradient", "--quick", "--seeds", "1", "--json", cwd=folder))
    return {"verdicts": [claim["verdict"] for claim in found[0]["claims"]], "numbers": numbers_in(found[0]["numbers"])}


def numbers_in(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [x for key in sorted(value) for x in numbers_in(value[key])]
    if isinstance(value, list):
        return [x for entry in value for x in numbers_in(entry)]
    return [float(value)] if isinstance(value, int | float) and not isinstance(value, bool) else []


COMMANDS = {f.__name__: f for f in (run, heads, variants, bench, sweep, theory)}


def near(found: Any, expected: Any) -> None:
    """The same keys and texts, numbers to what single precision leaves on another machine."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            near(found[key], expected[key])
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            near(a, b)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-3, abs=0.6)
    else:
        assert found == expected


@pytest.mark.parametrize("name", COMMANDS)
def test_numbers_are_those_from_before_the_rooms(name: str, tmp_path: Path) -> None:
    near(COMMANDS[name](tmp_path), json.loads(RECORDED.read_text("utf-8"))[name])


if __name__ == "__main__":
    from tempfile import TemporaryDirectory

    said = {}
    for name, command in COMMANDS.items():
        with TemporaryDirectory() as place:
            said[name] = command(Path(place))
    print(json.dumps(said, separators=(",", ":")))
