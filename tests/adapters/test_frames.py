"""Frames and tables: the same numbers as made by hand, whatever file they came in."""

from __future__ import annotations

import datetime
import decimal
import os
import warnings
from pathlib import Path
from random import Random

import numpy as np
import pytest

from efc.adapters.arrays import save_npz
from efc.adapters.frames import FORMATS, from_frame, read_table
from efc.data.catalogue import load
from efc.errors import EFCError
from support.command import efc
from support.mutate import check_sentence, mutations

pd = pytest.importorskip("pandas", reason="pandas is not installed (extra: frames)")
ROWS = [(k, ("red", "blue", "green")[k % 3], k % 2 == 0, "ab"[k // 10]) for k in range(20)]
FRAME = pd.DataFrame(ROWS, columns=["n", "colour", "even", "kind"])
BY_HAND = [[k, k % 2 == 0, k % 3 == 1, k % 3 == 2, k % 3 == 0] for k in range(20)]
"""n, even, then colour: blue, green, red, in sorted order."""


def test_texts_become_zeros_and_ones() -> None:
    found = from_frame(FRAME, "kind", test=FRAME)
    assert found.class_names == ("a", "b")
    assert found.x_train.tolist() == np.array(BY_HAND, float).tolist()
    assert found.y_test.tolist() == [0] * 10 + [1] * 10
    one = FRAME[FRAME.colour == "red"]
    assert from_frame(FRAME, "kind", test=one).x_test.shape[1] == 5  # columns are those of both parts together


def arff(*rows: str) -> str:
    kinds = "@attribute n numeric\n@attribute colour {red,blue,green}\n@attribute even {False,True}\n"
    return "\n".join(("@relation r", f"{kinds}@attribute kind {{a,b}}", "@data", *rows, ""))


def write(form: str, file: Path, times: int = 1) -> None:
    """The frame as a file."""
    frame = pd.concat([FRAME] * times, ignore_index=True)
    if form == "csv":
        frame.to_csv(file, index=False)
    elif form == "parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra: frames)")
        frame.to_parquet(file)
    else:
        file.write_text(arff(*(",".join(map(str, row)) for row in times * ROWS)))


@pytest.mark.parametrize("form", ["csv", "parquet", "arff"])
def test_tables_are_what_was_written_and_the_command_converts_them(form: str, tmp_path: Path) -> None:
    file = tmp_path / f"table.{form}"
    write(form, file)
    assert read_table(file).astype(str).equals(FRAME.astype(str)) or form == "arff"  # whose numbers are 0.0
    done = efc("data", "convert", file.name, "t.npz", "--label", "kind", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = load(f"npz:{tmp_path / done.stdout.strip()}")
    assert found.class_names == ("a", "b")
    assert sorted([*found.x_train[:, 0], *found.x_test[:, 0]]) == list(range(20))
    assert len(found.y_test) == 4


def test_mistakes_are_told(tmp_path: Path) -> None:
    with pytest.raises(EFCError, match=r"'kin'.*did you mean 'kind'"):
        from_frame(FRAME, "kin")
    with pytest.raises(EFCError, match="missing in n;"):
        from_frame(FRAME.assign(n=[None, *range(19)]), "kind")
    with pytest.raises(EFCError, match="is none of"):
        read_table(tmp_path / "a.xls")
    with pytest.raises(EFCError, match="is not there"):
        read_table(tmp_path / "a.csv")
    (tmp_path / "b.parquet").write_bytes(b"nothing")
    with pytest.raises(EFCError, match="cannot be read"):
        read_table(tmp_path / "b.parquet")


def test_what_is_missing_in_an_arff_file_is_no_value(tmp_path: Path) -> None:
    """SciPy gives the question mark itself, which would be one more colour, or one more class."""
    for row, column in (("1,?,True,a", "colour"), ("1,red,True,?", "kind"), ("?,red,True,a", "n")):
        (tmp_path / "t.arff").write_text(arff(*[row] * 5, *["2,blue,False,b"] * 5))
        with pytest.raises(EFCError, match=f"missing in {column};"):
            from_frame(read_table(tmp_path / "t.arff"), "kind")
    (tmp_path / "t.arff").write_text(arff(*["1,?,True,a", "2,red,True,b"] * 5).replace("green", "?"))
    assert from_frame(read_table(tmp_path / "t.arff"), "kind").x_train.shape[1] == 4  # n, ?, red, True


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([datetime.datetime(2026, 1, k + 1) for k in range(20)], "datetime"),
        ([datetime.date(2026, 1, k + 1) for k in range(20)], "date;"),
        ([datetime.timedelta(k) for k in range(20)], "timedelta"),
        ([1 + 2j] * 20, "complex"), ([b"x"] * 20, "bytes"), ([[1, 2]] * 20, "values such as"),
        ([{"a": 1}] * 20, "values such as"), ([1, "x"] * 10, "both numbers and texts"), ([10**400] * 20, "beyond all"),
        ([f"row {k}" for k in range(20)], "20 different texts in 20 rows, 'row 0'"),
        (["0.5", *(f"{k}.5" for k in range(18)), "oops"], "19 different texts in 20 rows, 'oops'"),
    ],
)  # fmt: skip
def test_columns_that_are_neither_numbers_nor_groups_are_told(values: list[object], told: str) -> None:
    """One column for each of thousands of names, or dates, would be learned from without a word."""
    with pytest.raises(EFCError, match=f"column 'n' holds.*{told}"):
        from_frame(
            FRAME.assign(n=pd.Series(values, dtype=None if "date" in told or "delta" in told else object)), "kind"
        )


def test_decimals_are_numbers_and_a_thousand_texts_are_too_many() -> None:
    frame = FRAME.assign(n=[decimal.Decimal(k) / 4 for k in range(20)])
    found = from_frame(frame, "kind", test=frame)
    assert found.x_train[:, 0].tolist() == [k / 4 for k in range(20)]
    many = pd.DataFrame({"t": [f"t{k // 3}" for k in range(3600)], "y": [0, 1] * 1800})
    with pytest.raises(EFCError, match="'t' holds 1200 different texts"):
        from_frame(many, "y")
    assert from_frame(many[:2700], "y").x_train.shape[1] == 900


def test_frames_that_are_none_are_told() -> None:
    with pytest.raises(EFCError, match="no column but 'kind'"):
        from_frame(FRAME[["kind"]], "kind")
    with pytest.raises(EFCError, match="same name"):
        from_frame(pd.concat([FRAME, FRAME], axis=1), "kind")
    with pytest.raises(EFCError, match="no rows"):
        from_frame(FRAME[:0], "kind")


@pytest.mark.parametrize("form", FORMATS)
def test_mutated_tables(form: str, tmp_path: Path) -> None:
    """One sentence, or numbers that are some, and the same again in the file that is made of them."""
    rng, n = Random(19), int(os.environ.get("EFC_FUZZ", "60"))
    file, read = tmp_path / f"t{form}", 0
    write(form[1:], file, 10)
    for damaged in mutations(file.read_bytes(), rng, n):
        file.write_bytes(damaged)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # pandas guesses, and says so
                made = from_frame(read_table(file), "kind")
                found = load(f"npz:{save_npz(made, tmp_path / 't.npz')}")
        except EFCError as mistake:
            check_sentence(mistake)
            continue
        read += 1
        assert np.isfinite(made.x_train).all()
        assert 0 < made.x_train.shape[1] < 40
        assert (found.x_train == made.x_train).all()
        assert [found.class_names[k] for k in found.y_test] == [made.class_names[k] for k in made.y_test]
    assert 0 < read < n
