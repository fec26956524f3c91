"""What a run is: the hash of everything that determines its result."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from efc.environment import code_version
from efc.files import Json
from efc.learners import find_learner
from efc.runs.results import RunSettings

DETERMINES = (
    "core", "learners", "streams", "data", "encoders", "training", "metrics.py", "runs/plan.py", "runs/worker.py",
)  # fmt: skip
"""Whatever in the package has a part in the numbers; store, command line, tables and pictures have none."""


@dataclass(frozen=True)
class Run:
    """One method, one setting, one seed; ``id`` is the hash of its settings."""

    settings: RunSettings
    id: str

    @classmethod
    def of(cls, settings: RunSettings) -> Run:
        return cls(settings, digest(settings.to_json()))

    @property
    def seed(self) -> int:
        return self.settings.seed


def digest(content: object) -> str:
    """Sixteen hexadecimal digits that stand for a plain document."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def flatten(settings: Mapping[str, Json]) -> dict[str, Json]:
    """Settings for a table: options become columns of their own, ``options.lr``."""
    plain = {key: value for key, value in settings.items() if key != "options"}
    options = settings["options"]
    assert isinstance(options, Mapping)
    return plain | {f"options.{key}": value for key, value in options.items()}


def code_of(method: str) -> str:
    """The version of the code that computes a method: the package's, and for one's own method its file's too."""
    own = ""
    if ":" in method:
        file = inspect.getsourcefile(find_learner(method))
        own = hashlib.sha256(Path(file).read_bytes()).hexdigest()[:8] if file else ""
    return "-".join(part for part in (package_code(), own) if part)


def package_code() -> str:
    """The version of the package's own code: what :func:`code_of` begins with."""
    return f"{code_version()}-{_package_digest()}"


@cache
def _package_digest() -> str:
    return digest_of_code(Path(str(resources.files("efc"))))


def digest_of_code(root: Path) -> str:
    """Of the files of a package that determine numbers."""
    files = sorted(file for name in DETERMINES for file in _sources(root / name))
    total = hashlib.sha256()
    for file in files:
        total.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return total.hexdigest()[:8]


def _sources(path: Path) -> list[Path]:
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]
