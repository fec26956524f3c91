"""The core's tests take the paths that large batches take."""

import pytest

from efc.core.solvers import rows


@pytest.fixture(autouse=True)
def few_samples_are_gone_on_with_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "WORTH", 0)
    monkeypatch.setattr(rows, "FEW", 0.9)
