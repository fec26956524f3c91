"""Arrays as a data set, and as a file that every command takes."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pytest

from efc.adapters.arrays import from_arrays, save_npz
from efc.data.catalogue import load
from efc.errors import EFCError

Y = np.repeat([10, 2, 30], [10, 20, 5])
X = np.arange(35.0)[:, None] * [1.0, -1.0]


def test_a_fifth_of_each_class_is_set_aside_and_nothing_is_lost() -> None:
    found = from_arrays("toy", (X, Y))
    assert found.class_names == ("2", "10", "30")
    assert np.bincount(found.y_test).tolist() == [4, 2, 1]
    assert sorted([*found.x_train[:, 0], *found.x_test[:, 0]]) == list(range(35))
    names = np.array([int(name) for name in found.class_names])
    for x, y in ((found.x_train, found.y_train), (found.x_test, found.y_test)):
        assert (names[y] == Y[x[:, 0].astype(int)]).all()
    again = from_arrays("toy", (X, Y))
    assert (again.x_test == found.x_test).all()


def test_names_pixels_and_a_test_part_of_ones_own() -> None:
    pixels = np.arange(16, dtype=np.uint8).reshape(4, 2, 2)
    found = from_arrays("p", (pixels, [0, 1, 0, 1]), (pixels[:2], [1, 0]), classes=["cat", "ant"])
    assert found.class_names == ("cat", "ant")  # in the order given, not sorted
    assert found.y_test.tolist() == [1, 0]
    assert found.x_train.dtype == np.uint8
    assert found.scale == 1 / 255


@pytest.mark.parametrize(
    "labels",
    [
        [10, 2, 30, 2, 10, 30], ["x", "a", "m", "a", "x", "m"], ["01", "1", "001"] * 2, ["²", "2", "--2"] * 2,
        ["10", "2", "-1"] * 2, ["1" * 30, "2", "x"] * 2, [2**63 - 1, -(2**63), 0] * 2, ["-0", "0", "१"] * 2,
    ],
)  # fmt: skip
def test_what_is_written_is_read_again_in_the_same_order(labels: list[object], tmp_path: Path) -> None:
    """Also where texts are written as numbers are, or stand for the same number: no two classes become one."""
    x = np.arange(12.0).reshape(6, 2)
    made = from_arrays("toy", (x, labels), (x, labels))
    read = load(f"npz:{save_npz(made, tmp_path / 'toy.npz')}")
    assert read.class_names == made.class_names
    assert (read.y_train == made.y_train).all()
    assert (read.x_test == x).all()


@pytest.mark.parametrize(
    ("train", "told"),
    [
        ((X, Y[:-1]), "N labels"),
        ((np.array([["a"], ["b"]]), [0, 1]), "must be numbers"),
        ((X[:0], Y[:0]), "is empty"),
        ((X[9:11], Y[9:11]), "has one sample"),
        (([[np.nan], [1.0]], [0, 0]), "NaN"),
        (([[2.0], [1.0]], np.array(["a", None], object)), "labels must be all texts.*None"),
        (([[2.0], [1.0]], np.array(["1", 1], object)), "labels must be all texts.*has 1"),
        (([[2.0], [1.0]], np.array([np.nan, "a"], object)), "labels must be all texts.*nan"),
    ],
)
def test_what_is_no_data_set_is_refused(train: tuple[object, object], told: str) -> None:
    with pytest.raises(EFCError, match=told):
        from_arrays("toy", train)
    with pytest.raises(EFCError, match=r"0\.\.0"):
        from_arrays("toy", (X, Y), classes=["one"])


def test_names_that_a_file_cannot_keep_apart_are_refused(tmp_path: Path) -> None:
    for names in (["a", "a"], ["a", "a\0"]):
        made = from_arrays("toy", (np.eye(4), [0, 0, 1, 1]), classes=names)
        with pytest.raises(EFCError, match="different names"):
            save_npz(made, tmp_path / "toy.npz")
    with pytest.raises(EFCError, match="not texts"):
        from_arrays("toy", (np.eye(4), ["0", "0", "1", "1"]), classes=["a", "b"])


def test_a_file_that_cannot_be_written_leaves_the_one_before(tmp_path: Path) -> None:
    made = from_arrays("toy", (X, Y))
    before = save_npz(made, tmp_path / "toy.npz").read_bytes()
    big = from_arrays("big", (np.zeros((2000, 100)), np.arange(2000) % 2))
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limit[1]))
    try:
        with pytest.raises(EFCError, match=r"cannot write .*toy.npz"):
            save_npz(big, tmp_path / "toy.npz")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert (tmp_path / "toy.npz").read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["toy.npz"]
    with pytest.raises(EFCError, match="cannot write"):
        save_npz(made, tmp_path / "nowhere" / "toy.npz")
