"""Tools that keep to themselves."""

from __future__ import annotations

import pytest


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The switches a logger sets for its process are this test's alone."""
    for name, value in {"WANDB_MODE": "offline", "WANDB_ERROR_REPORTING": "false"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
