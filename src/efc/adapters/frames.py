"""pandas frames, and the files in which tables come: ARFF (as OpenML has them), Parquet, CSV."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from efc.adapters.arrays import from_arrays
from efc.data.dataset import Dataset
from efc.errors import EFCError, MissingError, shown, suggest, visible

if TYPE_CHECKING:
    import pandas as pd

FORMATS = (".arff", ".parquet", ".csv")
MOST = 1000
"""Different texts in a column, at most: each of them becomes a column."""
FEW = 10
"""Rows up to which every row may hold a text of its own."""
TEXTS, NUMBERS = ("string", "categorical", "boolean"), ("integer", "floating", "decimal", "mixed-integer-float")
"""What pandas calls the values of a column that can be used."""


def from_frame(train: pd.DataFrame, label: str, test: pd.DataFrame | None = None, name: str = "frame") -> Dataset:
    """The column ``label`` holds the classes, all others are features.

    A column of texts or categories becomes a column of zeros and ones for each of its values. Without ``test`` a fifth
    of each class is set aside for it.
    """
    pd = _pandas()
    parts = [train] if test is None else [train, test]
    for part in parts:
        if label not in part.columns:
            raise EFCError(f"label: there is no column {label!r}{suggest(label, map(str, part.columns))}")
        if not part.columns.is_unique:
            raise EFCError(f"{name}: two columns have the same name; rename one")
        if not len(part):
            raise EFCError(f"{name}: there are no rows")
        if part.shape[1] < 2:
            raise EFCError(f"{name}: there is no column but {label!r}; the others are the features")
    together = pd.concat(parts, ignore_index=True)
    empty = [visible(str(column), keep="")[:60] for column in together.columns if together[column].isna().any()]
    if empty:
        raise EFCError(f"{name}: values are missing in {', '.join(empty[:10])}; fill them in or drop the rows first")
    features = pd.DataFrame({column: _usable(name, together[column]) for column in together.columns if column != label})
    texts = [column for column in features.columns if not pd.api.types.is_numeric_dtype(features[column])]
    for column in texts:
        _check_texts(name, features[column])
    x = pd.get_dummies(features, columns=texts, dtype=float).to_numpy(np.float64)
    classes = _usable(name, together[label])
    y = classes.to_numpy() if pd.api.types.is_numeric_dtype(classes) else classes.astype(str).to_numpy()
    n = len(train)
    return from_arrays(name, (x[:n], y[:n]), None if test is None else (x[n:], y[n:]))


def _usable(name: str, column: pd.Series) -> pd.Series:
    """Numbers, texts, categories or truths; what else there is has no place on a scale that would be known here."""
    pd = _pandas()
    kind = pd.api.types.infer_dtype(column, skipna=False)
    if kind in NUMBERS:
        try:
            return column.astype(float) if column.dtype == object else column
        except OverflowError:
            raise EFCError(
                f"{name}: column {shown(str(column.name))} holds numbers beyond all that can be computed with"
            ) from None
    if kind in TEXTS:
        return column
    held = {"mixed-integer": "both numbers and texts", "mixed": f"values such as {shown(column.iloc[0])}"}.get(
        kind, kind
    )
    raise EFCError(f"{name}: column {shown(str(column.name))} holds {held}; make numbers or texts of it, or drop it")


def _check_texts(name: str, column: pd.Series) -> None:
    """Refuse names of the rows, and numbers among which something else stands: every one would become a column."""
    different = column.nunique()
    if different > MOST or different > max(FEW, len(column) / 2):
        odd = next((value for value in column if not _is_number(value)), "")
        told = f"{different} different texts in {len(column)} rows, {shown(odd)} for instance"
        raise EFCError(
            f"{name}: column {shown(str(column.name))} holds {told}; drop it, or make numbers or groups of it"
        )


def _is_number(value: object) -> bool:
    try:
        float(str(value))
    except ValueError:
        return False
    return True


def read_table(path: Path | str) -> pd.DataFrame:
    """An ARFF, Parquet or CSV file as a frame."""
    pd, file = _pandas(), Path(path)
    if file.suffix.lower() not in FORMATS:
        raise EFCError(f"table: {file} is none of {', '.join(FORMATS)}")
    if not file.is_file():
        raise EFCError(f"table: {file} is not there")
    try:
        if file.suffix.lower() == ".csv":
            return pd.read_csv(file)
        return _read_arff(file) if file.suffix.lower() == ".arff" else pd.read_parquet(file)
    except ImportError:  # pandas itself does not bring it
        raise MissingError("table", "pyarrow", "frames") from None
    except MemoryError:
        raise EFCError(f"table: {file} is larger than the memory of this machine") from None
    except Exception as problem:  # what the readers raise depends on which bytes they stumble over
        told = " ".join(f"{type(problem).__name__}: {problem}".split())[:300]
        raise EFCError(f"table: {file} cannot be read ({told})") from None


def _read_arff(file: Path) -> pd.DataFrame:
    from scipy.io import arff  # scikit-learn needs it anyway

    rows, about = arff.loadarff(file)
    frame = _pandas().DataFrame(rows)
    for column in about.names():
        kind, values = about[column]
        if kind == "nominal":  # they come as bytes, and those that are missing as a question mark
            texts = [value.decode() for value in frame[column]]
            frame[column] = [None if text == "?" and text not in values else text for text in texts]
    return frame


def _pandas() -> ModuleType:
    try:
        return import_module("pandas")
    except ImportError:
        raise MissingError("frames", "pandas", "frames") from None
