"""All loggers of a session, by hand: each run once, what is forgotten gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from efc.loggers import LOGGERS, Logs, check_names
from support.logs import (
    READERS,
    by_hand,
    expected,
    mlflow_warns,
    same,
)


@mlflow_warns
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", LOGGERS)
def test_the_control_effort_epoch_by_epoch(name: str, tmp_path: Path) -> None:
    told: list[str] = []
    wanted = {}
    logs = Logs(tmp_path / "logs", check_names([name]), told.append)
    for seed in (0, 1):
        run, result = by_hand(seed)
        logs.log(run, result)
        wanted[run.id] = expected(result)
    logs.close()
    again = Logs(tmp_path / "logs", [name], told.append)  # another process, later
    again.log(*by_hand())
    again.close()
    assert not told
    numbers, params = READERS[name](tmp_path / "logs")
    assert ("effort/psi_1", 6) in wanted[run.id]
    assert ("effort/psi_1", 5) not in wanted[run.id]
    same(numbers, wanted)
    assert params[run.id]["options.strength"] == "inf"
    assert params[run.id]["dataset"] == "npz:my, data.npz"


@mlflow_warns
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", LOGGERS)
def test_a_run_that_is_forgotten_is_gone_and_its_neighbour_stays(name: str, tmp_path: Path) -> None:
    logs = Logs(tmp_path / "logs", check_names([name]), pytest.fail)
    (one, result), (other, _) = by_hand(0), by_hand(1)
    logs.log(one, result)
    logs.log(other, result)
    logs.forget([one.id])
    logs.close()
    same(READERS[name](tmp_path / "logs")[0], {other.id: expected(result)})
