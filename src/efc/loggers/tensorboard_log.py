"""``logs/tensorboard/RUN/``: event files, with the settings as hyperparameters."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from efc.errors import MissingError
from efc.files import make_folder
from efc.loggers.base import Logger, title
from efc.loggers.values import Parameters, Value
from efc.runs.identity import Run


class TensorBoardLogger(Logger):
    """One folder per run, which appears whole."""

    name = "tensorboard"

    @classmethod
    def check(cls) -> None:
        try:
            import torch.utils.tensorboard  # noqa: F401
        except ImportError:
            raise MissingError("--log", "tensorboard", "tensorboard") from None

    def __init__(self, folder: Path) -> None:
        self.folder, self.aside = make_folder(folder / "tensorboard", "--out"), folder / ".tensorboard"

    def holds(self, run: str) -> bool:
        return any(self.folder.glob(f"*-{run}"))

    def forget(self, run: str) -> None:
        for folder in self.folder.glob(f"*-{run}"):
            shutil.rmtree(folder)

    def write(self, run: Run, parameters: Parameters, values: Sequence[Value]) -> None:
        from torch.utils.tensorboard import SummaryWriter
        from torch.utils.tensorboard.summary import hparams

        shutil.rmtree(self.aside, ignore_errors=True)
        measures = {v.name: v.value for v in values if "/" not in v.name}
        with SummaryWriter(str(self.aside)) as writer:
            for summary in hparams(dict(parameters), measures):
                writer.file_writer.add_summary(summary)
            for v in values:
                writer.add_scalar(v.name, v.value, v.step)
        self.aside.rename(self.folder / f"{title(run)}-{run.id}")
