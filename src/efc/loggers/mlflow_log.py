"""MLflow: ``logs/mlflow/mlflow.db``, or the server that ``MLFLOW_TRACKING_URI`` names."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from efc.errors import MissingError
from efc.files import make_folder
from efc.loggers.base import Logger, title
from efc.loggers.values import Parameters, Value
from efc.runs.identity import Run

if TYPE_CHECKING:
    from mlflow.entities import Run as MlflowRun

TAG = "efc.run"
PARAMS, METRICS = 100, 1000
"""What MLflow takes in one request."""


class MlflowLogger(Logger):
    """One MLflow run per run, in the experiment ``efc`` or the one ``MLFLOW_EXPERIMENT_NAME`` names."""

    name = "mlflow"

    @classmethod
    def check(cls) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when it is imported
        try:
            import mlflow.tracking  # noqa: F401

            if "MLFLOW_TRACKING_URI" not in os.environ:
                import alembic  # noqa: F401
                import sqlalchemy  # noqa: F401
        except ImportError:
            raise MissingError("--log", "mlflow", "mlflow") from None

    def __init__(self, folder: Path) -> None:
        from mlflow.tracking import MlflowClient

        logging.getLogger("mlflow.store.db.utils").setLevel(logging.WARNING)  # it tells of every table it makes
        uri, artifacts = os.environ.get("MLFLOW_TRACKING_URI"), None
        if not uri:
            place = make_folder(folder / "mlflow", "--out").resolve()
            uri, artifacts = f"sqlite:///{place / 'mlflow.db'}", (place / "artifacts").as_uri()
        self.client = MlflowClient(uri)
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "efc")
        found = self.client.get_experiment_by_name(name)
        self.experiment = found.experiment_id if found else self.client.create_experiment(name, artifacts)

    def _find(self, run: str, more: str = "") -> list[MlflowRun]:
        return list(self.client.search_runs([self.experiment], f"tags.`{TAG}` = '{run}'{more}"))

    def holds(self, run: str) -> bool:
        return bool(self._find(run, " and attributes.status = 'FINISHED'"))

    def forget(self, run: str) -> None:
        for found in self._find(run):
            self.client.delete_run(found.info.run_id)

    def write(self, run: Run, parameters: Parameters, values: Sequence[Value]) -> None:
        from mlflow.entities import Metric, Param

        key = self.client.create_run(self.experiment, tags={TAG: run.id}, run_name=title(run)).info.run_id
        now = int(1000 * time.time())
        params = [Param(name, str(value)) for name, value in parameters.items()]
        for at in range(0, len(params), PARAMS):
            self.client.log_batch(key, params=params[at : at + PARAMS])
        metrics = [Metric(v.name, v.value, now, v.step) for v in values]
        for at in range(0, len(metrics), METRICS):
            self.client.log_batch(key, metrics=metrics[at : at + METRICS])
        self.client.set_terminated(key)
