"""A stream that is killed in the middle, at any moment, goes on where it stood: the same answers, bit for bit."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from efc.api import run
from efc.errors import EFCError
from efc.runs.config import make_config

SETTINGS = ("--dataset", "digits", "--stream", "blurred", "--methods", "efc,derpp", "--hidden", "20", "--seeds", "1",
            "--set", "batch_size=100", "--device", "cpu")  # fmt: skip


def numbers(document: Any) -> Any:
    """Everything that must be the same: all but times and places."""
    rows = []
    for row in document["rows"]:
        seeds = [{key: value for key, value in one.items() if key != "microseconds"} for one in row["stream"]]
        rows.append(
            {key: row[key] for key in ("method", "accuracy", "accuracy_matrix", "confusion")} | {"stream": seeds}
        )
    return rows


def test_killed_in_the_middle_of_a_stream_it_goes_on_bit_for_bit(tmp_path: Path) -> None:
    whole = run(
        dataset="digits", stream="blurred", methods=["efc", "derpp"], hidden="20", seeds=1, device="cpu", batch_size=100
    )
    command = [sys.executable, "-m", "efc", "run", *SETTINGS, "--checkpoint-minutes", "1e-5", "--out", "o"]
    for told in ("task 2/5 learned", "task 4/5 learned"):
        process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        assert process.stderr is not None
        assert any(told in line for line in process.stderr)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert list((tmp_path / "o" / "checkpoints").glob("*/*.json"))
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "task 1/5" not in ended.stderr.partition("derpp")[0]
    assert numbers(json.loads((tmp_path / "o" / "results.json").read_text())) == numbers(whole)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"epochs": 3}, r"^epochs: .* gone through once, not 3 times$"),
        ({"class_weight": "balanced"}, r"^class_weight: .* counts the same; got 'balanced'$"),
        ({"diagnose": True}, r"^diagnose: it looks at tasks, and a stream without boundaries has none$"),
        ({"scenario": "task"}, r"^scenario: .* \(class\), not task$"),
        ({"methods": "ewc"}, r"^ewc: it needs tasks"),
    ],
)
def test_what_goes_with_tasks_alone_is_refused_by_its_name(asked: dict[str, Any], told: str) -> None:
    with pytest.raises(EFCError, match=told):
        make_config({"stream": "blurred", **asked})


def test_a_stream_alone_is_enough_to_ask_for() -> None:
    """The methods that are compared unless told otherwise can all learn without boundaries."""
    assert [row.method for row in make_config({"stream": "blurred"}).rows] == ["efc", "online_ewc", "sgd"]
    assert [row.method for row in make_config({}).rows] == ["efc", "ewc", "sgd"]
