"""Weights & Biases: ``logs/wandb/``, offline unless ``WANDB_MODE`` says otherwise."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from efc.errors import MissingError
from efc.files import make_folder
from efc.loggers.base import Logger, title
from efc.loggers.values import Parameters, Value
from efc.runs.identity import Run

WHOLE = "logged-by-efc"
"""The file in a run's folder that says that it is there whole."""


class WandbLogger(Logger):
    """One W&B run per run, in the project ``efc`` or the one ``WANDB_PROJECT`` names."""

    name = "wandb"

    @classmethod
    def check(cls) -> None:
        os.environ.setdefault("WANDB_MODE", "offline")
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # its own, to its makers
        try:
            import wandb  # noqa: F401
        except ImportError:
            raise MissingError("--log", "wandb", "wandb") from None

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.runs = make_folder(self.folder / "wandb", "--out")

    def holds(self, run: str) -> bool:
        return any(self.runs.glob(f"*run-*-{run}/{WHOLE}"))

    def forget(self, run: str) -> None:
        for folder in self.runs.glob(f"*run-*-{run}"):
            shutil.rmtree(folder)

    def write(self, run: Run, parameters: Parameters, values: Sequence[Value]) -> None:
        import wandb

        # What concerns the machine is none of its business: no console, no code, no commit, no load, no host.
        settings = wandb.Settings(
            silent=True, console="off", disable_git=True, disable_code=True, x_disable_stats=True, x_disable_meta=True,
            x_disable_machine_info=True, x_save_requirements=False,
        )  # fmt: skip
        written = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "efc"), id=run.id, name=title(run), dir=str(self.folder),
            config=dict(parameters), settings=settings, reinit="create_new",
        )  # fmt: skip
        for name, axis in {v.name: v.axis for v in values}.items():
            written.define_metric(name, step_metric=axis)
        place = Path(written.dir).parent
        for (axis, step), together in groupby(values, lambda v: (v.axis, v.step)):
            written.log({axis: step} | {v.name: v.value for v in together})
        written.finish()
        (place / WHOLE).touch()
