"""Arrays in .npz files that may be anything: right, or one sentence."""

from __future__ import annotations

import io
import os
import pickle
import random
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from efc.data import npz
from efc.errors import EFCError
from efc.streams import load, split
from support.mutate import mutations

RNG = np.random.default_rng(0)
X, Y = RNG.random((12, 6)), np.arange(12) % 4
GOOD = {"x_train": X, "y_train": Y, "x_test": X, "y_test": Y}
CASES = int(os.environ.get("EFC_FUZZ", "200"))
"""How many mutated files are tried."""


def save(folder: Path, **change: Any) -> str:
    np.savez(folder / "a.npz", **(GOOD | change))
    return f"npz:{folder / 'a.npz'}"


def npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def raw(folder: Path, **members: bytes) -> str:
    """A file whose members are these bytes; the others are as they should be."""
    with zipfile.ZipFile(folder / "a.npz", "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, content in ({key: npy(value) for key, value in GOOD.items()} | members).items():
            bundle.writestr(f"{name}.npy", content)
    return f"npz:{folder / 'a.npz'}"


def header(shape: str, descr: str = "'<f8'", order: str = "False") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    "kind", [">f8", "<f8", ">f4", "f4", "f2", ">f2", np.longdouble, ">i4", "u8", ">u2", "i1", "u1"]
)
def test_numbers_of_any_kind_give_the_same_data(kind: Any, tmp_path: Path) -> None:
    x = np.arange(72).reshape(12, 6)
    data = load(save(tmp_path, x_train=x.astype(kind), x_test=np.asfortranarray(x.astype(kind)), scale=0.5))
    part = split(data, 1, 4, validation=0.0).tasks[0].parts
    for name in ("train", "test"):
        np.testing.assert_array_equal(part[name].x, 0.5 * x)


@pytest.mark.parametrize(
    "kind", [float, ">i8", np.longdouble, "f2", "U3", ">U2", "S1"]
)  # fmt: skip
def test_labels_of_any_kind_give_the_same_classes(kind: Any, tmp_path: Path) -> None:
    y = Y.astype(kind)
    data = load(save(tmp_path, y_train=y, y_test=y))
    np.testing.assert_array_equal(data.y_train, Y)
    assert len(data.class_names) == 4


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"scale": np.nan}, "scale is nan; it must be a number other than 0"),
        ({"scale": np.inf}, "scale is inf"),
        ({"scale": 0.0}, "scale is 0"),
        ({"scale": 1e300}, r"scale is 1e\+300"),
        ({"scale": 1e-300}, "scale is 1e-300"),
        ({"scale": np.ones(6)}, r"scale must be one number, got float64 \(6,\)"),
        ({"scale": "two"}, "scale must be one number, got <U3"),
        ({"scale": 1j}, "scale must be one number, got complex128"),
        ({"x_train": X * 1e300}, r"x_train holds values up to .*e\+\d+; float32 ends at"),
        ({"x_test": X * 1e300}, "x_test holds values up to"),
        ({"x_train": X.astype(np.longdouble) * np.longdouble("1e3000")}, "x_train holds NaN or infinite values"),
        ({"x_train": X * 1e20, "scale": 1e30}, r"x_train holds values up to .* times a scale of 1e\+30"),
        ({"x_train": np.full((12, 6), 2**60), "x_test": np.full((12, 6), 2**60), "scale": 1e30}, "times a scale"),
        ({"x_train": np.where(X > 0.9, np.nan, X)}, "x_train holds NaN or infinite values"),
        ({"x_test": np.where(X > 0.9, -np.inf, X)}, "x_test holds NaN or infinite values"),
        ({"y_train": np.where(Y == 1, np.nan, Y)}, "y_train holds nan, which is no label"),
        ({"y_test": np.where(Y == 1, np.inf, Y)}, "y_test holds inf, which is no label"),
        ({"y_test": Y + 0.5}, "y_test holds 0.5, which is no label; use whole numbers or texts"),
        ({"y_train": Y * 1j}, "y_train must hold whole numbers or texts, got complex128"),
        ({"y_train": Y.astype("M8[s]")}, "y_train must hold whole numbers or texts, got datetime64"),
        ({"y_train": np.uint64(2**63) + Y.astype(np.uint64)}, "hold too large labels"),
        ({"y_train": np.array(["a", "b", "c", "\udcff"] * 3)}, "the labels in y_train and y_test cannot be read"),
        ({"x_train": X.astype("m8[s]")}, "x_train must hold numbers, got timedelta64"),
        ({"x_train": X * 1j}, "x_train must hold numbers, got complex128"),
        ({"x_train": X > 0.5}, "x_train must hold numbers, got bool"),
        ({"x_train": X[:, :0]}, "does not go with"),
        ({"x_train": np.float64(3)}, r"x_train \(\) does not go with"),
        ({"x_train": X.reshape(12, 1, 1, 1, 6)}, "does not go with"),
        ({"x_train": X.astype(np.uint8)}, "x_train holds uint8 .* and x_test float64 .*; save both alike"),
        ({"x_train": X.reshape(12, 2, 3), "x_test": X.reshape(12, 3, 2)}, r"\(2, 3\) and x_test .* save both alike"),
        ({"y_train": np.array([{}] * 12, dtype=object)}, "y_train must hold numbers or texts, got object"),
        ({"x_train": np.zeros((12, 6), "f4,i4")}, "x_train must hold numbers or texts, got"),
    ],
)  # fmt: skip
def test_what_is_no_data_is_named(change: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(EFCError, match=says) as failure:
        load(save(tmp_path, **change))
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize(
    ("member", "says"),
    [
        (header("(1000000000000, 6)"), "the header of x_train says .* 48000000000000 bytes, the file has 0"),
        (header("(12, 6)") + bytes(575), "says .* 576 bytes, the file has 575"),
        (header("(12, 6)") + bytes(577), "says .* 576 bytes, the file has 577"),
        (header("(-12, -6)") + bytes(576), "the header of x_train says"),
        (header("(99999999999999999999, 99999999999999999999)"), "the header of x_train says"),
        (header("(1000000000000,)", "'<U0'"), "must hold numbers or texts"),
        (header("(12, 6)", "'|O'") + pickle.dumps([1]), "must hold numbers or texts, got object"),
        (header("(12, 6)", "[('a', '<f8')]") + bytes(576), "must hold numbers or texts"),
        (header("(12, 6)", "'nonsense'"), "x_train is no array"),
        (header("12"), "x_train is no array"),
        (header("(" * 3000 + ")" * 3000), "x_train is no array"),
        (header("[" * 2000), "x_train is no array"),
        (b"\x93NUMPY\x09\x00", "x_train is no array"),
        (b"\x93NUMPY\x01\x00\xff\xff{", "x_train is no array"),
        (b"\x93NUMPY", "x_train is no array"),
        (b"not an array at all", "x_train is no array"),
        (pickle.dumps([1, 2, 3]), "x_train is no array"),
        (b"", "x_train is no array"),
    ],
)  # fmt: skip
def test_members_that_are_no_arrays_or_promise_too_much(member: bytes, says: str, tmp_path: Path) -> None:
    with pytest.raises(EFCError, match=says) as failure:
        load(raw(tmp_path, x_train=member))
    assert "\n" not in str(failure.value)


def test_a_pickle_is_not_run(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "ran"),)

    np.savez(tmp_path / "a.npz", **(GOOD | {"y_train": np.array([Bomb()] * 12, dtype=object)}))
    with pytest.raises(EFCError, match="got object"):
        load(f"npz:{tmp_path / 'a.npz'}")
    assert not (tmp_path / "ran").exists()


def test_a_file_that_unpacks_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npz, "LARGE", 1 << 20)
    np.savez_compressed(tmp_path / "a.npz", **(GOOD | {"x_train": np.zeros((12, 100_000))}))
    with pytest.raises(EFCError, match=r"unpacks to \d+ GB; refused; save it with np.savez"):
        load(f"npz:{tmp_path / 'a.npz'}")


def test_members_there_twice_encrypted_or_compressed_in_another_way(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as bundle, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in (*GOOD, "x_test"):
            bundle.writestr(f"{name}.npy", npy(GOOD[name]))
    with pytest.raises(EFCError, match="x_test is there twice"):
        load(f"npz:{path}")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as bundle:
        for name, value in GOOD.items():
            bundle.writestr(f"{name}.npy", npy(value))
    with pytest.raises(EFCError, match="compressed by method 14"):
        load(f"npz:{path}")
    content = bytearray(Path(save(tmp_path).removeprefix("npz:")).read_bytes())
    at = content.index(b"PK\x01\x02")
    content[at + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(EFCError, match="is encrypted"):
        load(f"npz:{path}")


def test_names_that_are_not_utf8_are_shown_as_they_can_be(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as bundle:
        bundle.writestr("\u00e9.npy", npy(X))
        bundle.writestr("\x1b[31m\n.npy", npy(X))
    with pytest.raises(EFCError, match=r"lacks x_train, y_train, x_test, y_test; it has \u00e9, \\x1b\[31m\\n"):
        load(f"npz:{path}")
    path.write_bytes(path.read_bytes().replace("\u00e9".encode(), b"\xff\xfe"))
    with pytest.raises(EFCError, match="is not a readable npz file"):
        load(f"npz:{path}")


def test_other_things_than_npz_files(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X)
    (tmp_path / "empty.npz").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe.npz")
    for name, says in (
        ("a.npy", "not a readable npz"), ("empty.npz", "not a readable npz"), ("pipe.npz", "is not there"),
        (".", "is not there"), ("x" * 300, "File name too long"), ("a\0b", "is not there"),
    ):  # fmt: skip
        with pytest.raises(EFCError, match=says):
            load(f"npz:{tmp_path / name}")
    with pytest.raises(EFCError, match="nosuchuser"):
        load("npz:~nosuchuser/a.npz")


@pytest.mark.parametrize("compressed", [False, True])
def test_mutated_files_give_data_or_one_sentence(compressed: bool, tmp_path: Path) -> None:
    """What comes through is finite and of the right shape; the checksums of zip let no changed value through."""
    rng, path = random.Random(19), tmp_path / "a.npz"
    (np.savez_compressed if compressed else np.savez)(path, **GOOD, scale=0.5)
    whole, ended = load(f"npz:{path}"), {"right": 0, "refused": 0}
    for spoilt in mutations(path.read_bytes(), rng, CASES // 2):
        path.write_bytes(spoilt)
        try:
            data = load(f"npz:{path}")
        except EFCError:
            ended["refused"] += 1
        else:
            ended["right"] += 1
            np.testing.assert_array_equal(data.x_train, whole.x_train)
            np.testing.assert_array_equal(data.y_test, whole.y_test)
    print(ended)
    assert ended["refused"]


def test_arrays_mutated_under_right_checksums_give_data_or_one_sentence(tmp_path: Path) -> None:
    """As an ill will would make them: headers and values are changed, and the file around them is right."""
    rng, ended = random.Random(20), {"valid": 0, "refused": 0}
    contents = {name: npy(value) for name, value in (GOOD | {"scale": np.float64(0.5)}).items()}
    for _ in range(CASES):
        name = rng.choice(list(contents))
        [spoilt] = mutations(contents[name][: 128 if rng.randrange(2) else None], rng, 1)
        try:
            data = load(
                raw(tmp_path, **(contents | {name: spoilt + contents[name][128:] if len(spoilt) < 200 else spoilt}))
            )
        except EFCError:
            ended["refused"] += 1
        else:
            ended["valid"] += 1
            assert np.isfinite(np.float32(data.scale) * np.float32(abs(data.x_train).max()))
            assert 0 <= data.y_train.min() <= data.y_train.max() < len(data.class_names)
    print(ended)
    assert all(ended.values())
