"""Runs of MLflow that a process left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from efc.loggers import Logs, check_names
from support.logs import (
    by_hand,
    expected,
    mlflow_warns,
    read_mlflow,
    same,
)


@mlflow_warns
@pytest.mark.usefixtures("quiet")
def test_an_unfinished_run_of_mlflow_is_replaced(tmp_path: Path) -> None:
    run, result = by_hand()
    logs = Logs(tmp_path / "logs", check_names(["mlflow"]), pytest.fail)
    client: Any = logs.loggers[0].client  # type: ignore[attr-defined]
    client.create_run(logs.loggers[0].experiment, tags={"efc.run": run.id})  # type: ignore[attr-defined]
    logs.log(run, result)
    same(read_mlflow(tmp_path / "logs")[0], {run.id: expected(result)})
