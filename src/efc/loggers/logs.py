"""All loggers of a session: each run to each of them once, and never at the cost of the results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path

from filelock import FileLock

from efc.errors import EFCError, choose
from efc.files import make_folder
from efc.loggers.base import Logger
from efc.loggers.values import parameters, values_of
from efc.runs.identity import Run
from efc.runs.results import RunResult

LOGGERS = {"csv": "CsvLogger", "tensorboard": "TensorBoardLogger", "mlflow": "MlflowLogger", "wandb": "WandbLogger"}


def _find(name: str) -> type[Logger]:
    found: type[Logger] = getattr(import_module(f"efc.loggers.{name}_log"), LOGGERS[name])
    return found


def check_names(given: Iterable[str]) -> tuple[str, ...]:
    """The loggers asked for, commas resolved, without repetition; what they need is installed."""
    split = [part.strip() for text in given for part in text.split(",")]
    names = tuple(dict.fromkeys(choose("--log", name, LOGGERS) for name in split))
    for name in names:
        _find(name).check()
    return names


class Logs:
    """The loggers of a session, in ``OUT/logs``. One that fails is reported once and left; the others go on."""

    def __init__(self, folder: Path, names: Sequence[str], tell: Callable[[str], None]) -> None:
        self.tell = tell
        self.failed = False
        self.known: set[str] = set()
        self.loggers: list[Logger] = []
        if names:
            make_folder(folder, "--out")
            # Two processes on one folder share the work, and may both come to log a run.
            self.lock = FileLock(folder / ".lock")
            with self.lock:
                self.loggers = [_open(name, folder) for name in names]

    def log(self, run: Run, result: RunResult) -> None:
        """Log a stored run, unless it is there already."""
        if run.id in self.known:
            return
        self.known.add(run.id)

        def write(logger: Logger) -> None:
            if not logger.holds(run.id):
                logger.forget(run.id)  # part of it, if a process died while it wrote
                logger.write(run, parameters(run.settings), values_of(run.settings.epochs, result))

        self._each(write)

    def forget(self, ids: Iterable[str]) -> None:
        """Take runs away that are going to be computed again."""
        for key in ids:
            self._each(lambda logger, key=key: logger.forget(key))  # type: ignore[misc]

    def close(self) -> None:
        self._each(lambda logger: logger.close())

    def _each(self, do: Callable[[Logger], None]) -> None:
        for logger in list(self.loggers):
            try:
                with self.lock:
                    do(logger)
            except Exception as problem:  # a full disk, a server that is gone: no reason to lose hours of training
                self.loggers.remove(logger)
                self.failed = True
                told = " ".join(f"{type(problem).__name__}: {problem}".split())
                self.tell(
                    f"Failed: --log {logger.name}: {told}; the results are stored, and the same command logs what is "
                    "missing"
                )


def _open(name: str, folder: Path) -> Logger:
    try:
        return _find(name)(folder)
    except EFCError:
        raise
    except Exception as problem:  # whatever a tool's client raises
        told = " ".join(f"{type(problem).__name__}: {problem}".split())
        raise EFCError(f"--log: cannot open {name}: {told}") from None
