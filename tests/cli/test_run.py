"""The command as a user types it: results, files, reproducibility, and one clear line for every mistake."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from efc.cli import main
from efc.learners import LEARNERS
from efc.runs.store import Store
from support.command import efc

QUICK = ["run", "--seeds", "2", "--epochs", "2", "--hidden", "16"]


def call(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """The same entry point, in this process; returns the exit code."""
    monkeypatch.setattr(sys, "argv", ["efc", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


def comparable(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key != "seconds"} for row in document["rows"]]


def test_run_shares_its_folder_with_nobody_else(tmp_path: Path) -> None:
    """Other settings into a folder that holds results: refused, unless asked for; then both are in the store."""
    one = efc(*QUICK, "--methods", "sgd", "--out", "o", cwd=tmp_path)
    assert one.returncode == 0, one.stderr
    other = efc(*QUICK, "--methods", "ewc", "--out", "o", cwd=tmp_path)
    assert other.returncode == 2
    assert "already holds results of other settings" in other.stderr
    forced = efc(*QUICK, "--methods", "ewc", "--out", "o", "--overwrite", cwd=tmp_path)
    assert forced.returncode == 0, forced.stderr
    assert [row["method"] for row in json.loads((tmp_path / "o" / "results.json").read_text())["rows"]] == ["ewc"]
    assert len(list((tmp_path / "o" / "runs").glob("*.json"))) == 4
    listed = efc("runs", "list", "--in", "o", "--where", "method=sgd", cwd=tmp_path)
    assert len(re.findall(r"\bsgd\b", listed.stdout)) == 2, listed.stdout
    ids = re.findall(r"│ ([0-9a-f]{8,16}) ", efc("runs", "list", "--in", "o", cwd=tmp_path).stdout)
    shown = json.loads(efc("runs", "show", ids[0][:6], "--in", "o", cwd=tmp_path).stdout)
    assert shown["id"].startswith(ids[0])
    assert shown["settings"]["dataset"] == "digits"
    compared = efc("runs", "compare", ids[0], ids[-1], "--in", "o", cwd=tmp_path).stdout
    assert re.search(r"method.*ewc.*sgd", compared)
    assert re.search(r"accuracy +│ +\d", compared), compared
    exported = efc("runs", "export", "--in", "o", cwd=tmp_path).stdout.splitlines()
    assert len(exported) == 5
    assert {"id", "method", "options.lr", "accuracy", "seed"} <= set(exported[0].split(","))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["list", "--in", "nowhere"], "--in: there is no efc.sqlite in nowhere"),
        (["list", "--in", "o", "--where", "colour=red"], "--where: expected NAME=VALUE"),
        (["show", "zzz", "--in", "o"], "ID: no run begins with 'zzz'"),
        (["export", "--in", "o", "--csv", "no/such/folder.csv"], "--csv: cannot write no/such/folder.csv"),
    ],
)
def test_mistakes_in_looking_at_runs(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Store(tmp_path / "o").close()
    assert call(["runs", *arguments], monkeypatch) == 2
    assert f"efc: {says}" in capsys.readouterr().err


def test_bench_plan_and_second_time(tmp_path: Path) -> None:
    command = ["bench", "--methods", "sgd,analytic", "--seeds", "2", "--epochs", "1", "--hidden", "8", "--out", "b"]
    planned = efc(*command, "--plan", cwd=tmp_path)
    assert planned.returncode == 0, planned.stderr
    assert re.search(r"4 runs in 2 packs to train, about \d+ s", planned.stderr)
    assert not (tmp_path / "b").exists()
    assert efc(*command, cwd=tmp_path).returncode == 0
    settings = "datasets: [digits]\nmethods: [sgd, analytic]\nscenarios: class\nseeds: 3\nepochs: 1\nhidden: [8]\n"
    (tmp_path / "c.yaml").write_text(settings)
    more = efc("bench", "--config", "c.yaml", "--out", "b", "--json", cwd=tmp_path)
    assert more.returncode == 0, more.stderr
    assert re.search(r"digits +class +sgd +input_compensated +2 +1", more.stderr), more.stderr
    assert [len(row["seeds"]) for row in json.loads(more.stdout)["rows"]] == [3, 3]
    again = efc(*command, cwd=tmp_path)
    assert "Nothing to run" in again.stderr


def test_bench_reports_failures_at_the_end_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(
        "from efc.learners import SGD\nclass Bad(SGD):\n    def descent(self, x, y):\n        raise OSError('oops')\n"
    )
    command = ["bench", "--methods", "bad:Bad,sgd", "--seeds", "1", "--epochs", "1", "--hidden", "8", "--workers", "1"]
    done = efc(*command, "--out", "b", cwd=tmp_path)
    assert done.returncode == 1
    assert "Failed: digits: Bad (input_compensated, class), 1 runs: OSError: oops" in done.stderr
    assert re.search(r"class +sgd", done.stdout)


def test_run_json_and_folder_and_rerun(tmp_path: Path) -> None:
    """stdout is the document alone, equal to results.json; the saved config gives the same numbers, bit for bit."""
    first = efc(
        *QUICK, "--scenario", "class,task", "--head", "random,least_squares", "--json", "--out", "one", cwd=tmp_path
    )
    assert first.returncode == 0, first.stderr
    document = json.loads(first.stdout)
    assert document == json.loads((tmp_path / "one" / "results.json").read_text())
    assert "task 5/5 learned" in first.stderr
    keys = [(row["scenario"], row["method"], row["head"]) for row in document["rows"]]
    assert len(set(keys)) == len(keys) == 12
    for row in document["rows"]:
        assert {
            "method", "head", "dataset", "scenario", "seeds", "accuracy", "accuracy_matrix", "forgetting", "bwt",
            "confusion", "unsettled", "seconds", "config",
        } <= row.keys()  # fmt: skip
        assert len(row["accuracy"]["per_seed"]) == len(row["accuracy_matrix"]) == 2
        last = [sum(matrix[-1]) / 5 for matrix in row["accuracy_matrix"]]
        assert row["accuracy"]["per_seed"] == pytest.approx(last)
        assert row["accuracy"]["mean"] == pytest.approx(sum(last) / 2)
        assert sum(map(sum, row["confusion"][0])) == 360
        assert (row["unsettled"] is None) == (row["method"] != "efc")
    assert document["command"].startswith("efc run --seeds 2")
    assert {"torch", "python", "device", "efc"} <= document["environment"].keys()
    assert (tmp_path / "one" / "matrices.png").read_bytes()[:4] == b"\x89PNG"
    again = efc("run", "--config", "one/config.yaml", "--json", "--out", "two", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert comparable(json.loads(again.stdout)) == comparable(document)
    assert (tmp_path / "two" / "config.yaml").read_text() == (tmp_path / "one" / "config.yaml").read_text()


def test_all_methods_in_one_table(tmp_path: Path) -> None:
    """Every method of the package, head policies where they apply, all measures in the document."""
    done = efc(*QUICK, "--methods", "all", "--scenario", "class,domain", "--json", "--out", "o", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert {row["method"] for row in rows} == set(LEARNERS)
    assert len(rows) == 2 * len(LEARNERS)
    for row in rows:
        for measure in ("accuracy", "average_incremental", "forgetting", "bwt", "fwt"):
            assert len(row[measure]["per_seed"]) == 2
        share = row["prediction_share"]
        assert share is None if row["scenario"] == "domain" else [sum(s) for s in share] == pytest.approx([100, 100])
    mean = {row["method"]: row["accuracy"]["mean"] for row in rows if row["scenario"] == "class"}
    assert mean["joint"] > mean["sgd"]


def test_a_variant_is_named_and_its_values_yield_to_given_ones(tmp_path: Path) -> None:
    done = efc(
        *QUICK, "--methods", "efc,ewc", "--head", "least_squares", "--set", "efc.variant=reference",
        "--set", "efc.beta=2", "--set", "ewc.strength=inf", "--out", "o", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "efc@reference" in done.stdout
    rows = json.loads((tmp_path / "o" / "results.json").read_text())["rows"]
    options = rows[0]["config"]["options"]
    assert (options["form"], options["beta"], options["head_rule"]) == ("bounded", 2, "frozen")
    assert rows[1]["config"]["options"]["strength"] == "inf"
    again = efc("run", "--config", "o/config.yaml", "--json", "--out", "p", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert comparable(json.loads(again.stdout)) == comparable({"rows": rows})


def test_table_names_every_head_and_fits_eighty_columns(tmp_path: Path) -> None:
    done = efc(*QUICK, "--out", "o", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    for method, head in (("efc", "input_compensated"), ("ewc", "input_compensated"), ("sgd", "input_compensated")):
        assert any(re.search(rf"class +{method} +{head} +\d+\.\d ± \d+\.\d", line) for line in lines), done.stdout
    assert "Results in o" in done.stderr


def test_settings_reach_the_learner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c.yaml").write_text("seeds: 1\nefc: {beta: 3, lr: 1e-3}\nhidden: [8]\n")
    arguments = [
        "run",
        "--config",
        str(tmp_path / "c.yaml"),
        "--methods",
        "efc",
        "--epochs",
        "1",
        "--out",
        str(tmp_path / "o"),
    ]
    arguments += ["--set", "efc.beta=5e0", "--set", "efc.lambda=0.2", "--set", "efc.solver_options.tol=1e-2"]
    assert call([*arguments, "--solver", "newton", "--set", "batch_size=64"], monkeypatch) == 0
    config = yaml.safe_load((tmp_path / "o" / "config.yaml").read_text())
    options = config["rows"][0]["options"]
    assert (options["beta"], options["lam"], options["lr"], options["solver"]) == (5.0, 0.2, 1e-3, "newton")
    assert options["solver_options"] == {"tol": 0.01}
    assert (config["batch_size"], config["hidden"], config["seeds"], config["epochs"]) == (64, [8], 1, 1)


MISTAKES: dict[str, tuple[list[str], str]] = {
    "dataset": (["--dataset", "digit"], r"dataset: unknown value 'digit' \(did you mean 'digits'\?\)"),
    "method": (["--methods", "efc,ewcc"], r"methods: unknown value 'ewcc' \(did you mean 'ewc'\?\)"),
    "activation": (["--activation", "rleu"], r"activation: unknown value 'rleu' \(did you mean 'relu'\?\)"),
    "scenario": (["--scenario", "clss"], r"scenario: unknown value 'clss'"),
    "head": (["--head", "ridge"], r"head: unknown value 'ridge'"),
    "solver": (["--solver", "euler"], r"efc.solver: unknown value 'euler'"),
    "learning rate": (["--set", "efc.lr=-0.1"], r"efc.lr: must be above 0, got -0.1"),
    "seeds": (["--seeds", "0"], r"seeds: must be a whole number of at least 1, got 0"),
    "epochs": (["--epochs", "0"], r"epochs: .* got 0"),
    "hidden": (["--hidden", "10,x"], r"hidden: expected layer widths such as 100,100, got '10,x'"),
    "hidden width": (["--hidden", "0"], r"hidden: .* got 0"),
    "tasks": (["--set", "tasks=6"], r"tasks: 6 tasks of 2 classes need 12 classes, digits has 10"),
    "device": (["--device", "tpu"], r"device: expected auto, cpu, cuda or cuda:N, got 'tpu'"),
    "set without value": (["--set", "efc.lr"], r"--set: expected KEY=VALUE"),
    "set of an unknown key": (["--set", "efc.bta=1"], r"efc.bta: no such option \(did you mean 'beta'\?\)"),
    "set of an unknown section": (["--set", "ecf.beta=1"], r"ecf: no such setting"),
    "set of a section to a number": (["--set", "efc=1"], r"efc: expected named settings"),
    "feedback": (["--activation", "tanh", "--set", "efc.feedback=jacobian"], r"signed activation 'tanh'"),
    "config that is not there": (["--config", "nowhere.yaml"], r"--config: cannot read nowhere.yaml: No such file"),
    "k_p": (["--set", "efc.k_p=3"], r"k_p: must lie between 0 and kappa \(0.1\), got 3"),
    "evaluate": (["--evaluate", "train"], r"evaluate: unknown value 'train'"),
    "list per run": (["--set", "efc.beta=[1, 2]"], r"efc.beta: one value, please"),
    "swapped letters": (["--methods", "ecf"], r"did you mean 'efc'"),
    "own method": (["--methods", "nomodule:Mine"], r"methods: there is no module or file 'nomodule'"),
    "variant": (
        ["--set", "efc.variant=refrence"],
        r"efc.variant: unknown value 'refrence' .*'reference'\?",
    ),
    "preservation": (["--set", "efc.preservation=ewcc"], r"efc.preservation: unknown value 'ewcc'"),
    "strength": (["--set", "ewc.strength=-1"], r"ewc.strength: must be at least 0, got -1"),
    "encoder": (["--encoder", "resnet"], r"encoder: unknown value 'resnet' \(did you mean 'resnet18'\?\)"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_and_exit_code_2(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, says = MISTAKES[name]
    monkeypatch.chdir(tmp_path)
    assert call(["run", "--out", "o", *arguments], monkeypatch) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(rf"efc: .*{says}.*\n", captured.err), captured.err
    assert not (tmp_path / "o" / "results.json").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sedes: 3\n", r"sedes: no such setting \(did you mean 'seeds'\?\)"),
        ("efc: {betta: 3}\n", r"efc.betta: no such option \(did you mean 'beta'\?\)"),
        ("seeds: [1\n", r"is not valid YAML"),
        ("- 1\n", r"expected named settings"),
        ("rows: [{method: efc}]\n", r"rows\[0\]: expected the keys method, head, scenario, options"),
        ("seeds: many\n", r"seeds: must be a whole number"),
        ("methods: []\n", r"methods: at least one is needed"),
    ],
)
def test_a_bad_config_file_is_one_line_and_exit_code_2(
    text: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    assert call(["run", "--config", str(file), "--out", str(tmp_path / "o")], monkeypatch) == 2
    assert re.fullmatch(rf"efc: .*{says}.*\n", capsys.readouterr().err)


def test_out_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("precious")
    assert call(["run", "--out", str(tmp_path / "file" / "sub")], monkeypatch) == 2
    assert "--out: cannot write to" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "precious"


def test_earlier_results_are_not_overwritten_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "results.json").write_text("{}")
    assert call([*QUICK, "--methods", "sgd", "--out", str(tmp_path)], monkeypatch) == 2
    assert "already holds results" in capsys.readouterr().err
    assert (tmp_path / "results.json").read_text() == "{}"
    assert call([*QUICK, "--methods", "sgd", "--out", str(tmp_path), "--overwrite"], monkeypatch) == 0
    assert json.loads((tmp_path / "results.json").read_text())["rows"]


def test_warnings_name_what_would_mislead(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("head: [zero]\nefc: {solver_options: {max_steps: 1}}\nsgd: {lr: 1e30}\n")
    done = efc(*QUICK, "--methods", "efc,sgd", "--config", "c.yaml", "--out", "o", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = re.findall(r"Warning: (.*)", done.stderr)
    assert any(re.match(r"efc \(zero, class\): task 1: \d+ % of the samples found no equilibrium", one) for one in told)
    assert any(one.startswith("sgd (zero, class): training diverged") for one in told)
    rows = {row["method"]: row for row in json.loads((tmp_path / "o" / "results.json").read_text())["rows"]}
    assert any("found no equilibrium" in text for text in rows["efc"]["warnings"])
    assert "training diverged" in (tmp_path / "o" / "report.html").read_text()


@pytest.mark.parametrize("head", ["zero", "random", "least_squares"])
def test_a_gain_that_is_absurd_scores_at_chance_and_warns(head: str, tmp_path: Path) -> None:
    done = efc(*QUICK, "--methods", "efc", "--head", head, "--set", "efc.kappa=1e6", "--out", "o", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads((tmp_path / "o" / "results.json").read_text())["rows"]
    assert row["accuracy"]["mean"] < 50
    assert re.search(r"Warning: efc .*(found no equilibrium|diverged)", done.stderr)
    assert any("found no equilibrium" in text or "diverged" in text for text in row["warnings"])


def test_help_and_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["--version"], monkeypatch) == 0
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", capsys.readouterr().out)
    assert call(["run", "--help"], monkeypatch) == 0
    assert "--scenario" in capsys.readouterr().out
