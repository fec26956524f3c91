"""Archives that would write elsewhere, link, or swell without end are refused."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import random
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

from efc.data import archives
from efc.data.archives import extract
from efc.errors import EFCError
from support.mutate import mutations

CASES = int(os.environ.get("EFC_FUZZ", "150"))
"""How many mutated archives of a kind are tried."""


def tar(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as bundle:
        for info, content in members:
            info.size = len(content)
            bundle.addfile(info, io.BytesIO(content))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def zipped(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, content in members.items():
            bundle.writestr(name.replace("__", "/"), content)
    return path


def test_good_archives(tmp_path: Path) -> None:
    one = tar(tmp_path / "a.tgz", (member("d/x.bin"), b"abc"), (member("d/y.txt"), b"no"))
    written = extract(one, tmp_path / "o", 100, wanted=lambda name: name.endswith(".bin"))
    assert [p.relative_to(tmp_path / "o").as_posix() for p in written] == ["d/x.bin"]
    assert written[0].read_bytes() == b"abc"
    two = zipped(tmp_path / "a.zip", d__x=b"abc", y=b"def")
    assert sorted(p.read_bytes() for p in extract(two, tmp_path / "z", 100)) == [b"abc", b"def"]


@pytest.mark.parametrize(
    ("info", "says"),
    [
        (member("../evil"), "points outside"),
        (member("a/../../evil"), "points outside"),
        (member("/tmp/evil"), "points outside"),
        (member("c:\\evil"), "points outside"),
        (member("link", tarfile.SYMTYPE, "/etc"), "link or a device"),
        (member("hard", tarfile.LNKTYPE, "x"), "link or a device"),
        (member("pipe", tarfile.FIFOTYPE), "link or a device"),
    ],
)
def test_bad_tar_members_are_refused(info: tarfile.TarInfo, says: str, tmp_path: Path) -> None:
    content = b"" if info.type != tarfile.REGTYPE else b"evil"
    inner = tmp_path / "deep" / "target"
    with pytest.raises(EFCError, match=says):
        extract(tar(tmp_path / "bad.tgz", (info, content)), inner, 1000)
    assert list(tmp_path.rglob("*evil*")) == []


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/../../evil"])
def test_bad_zip_members_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(EFCError, match="points outside"):
        extract(zipped(tmp_path / "bad.zip", **{name: b"x"}), tmp_path / "t", 1000)


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("link")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "l.zip", "w") as bundle:
        bundle.writestr(info, "/etc/passwd")
    with pytest.raises(EFCError, match="link"):
        extract(tmp_path / "l.zip", tmp_path / "t", 1000)


def test_a_decompression_bomb_is_stopped_early(tmp_path: Path) -> None:
    bomb = zipped(tmp_path / "b.zip", big=bytes(50_000_000))
    assert bomb.stat().st_size < 100_000
    with pytest.raises(EFCError, match="more than 1 MB"):
        extract(bomb, tmp_path / "t", 1_000_000)
    assert sum(p.stat().st_size for p in (tmp_path / "t").rglob("*")) <= 2_000_000
    bomb = tar(tmp_path / "b.tgz", (member("big"), bytes(50_000_000)))
    with pytest.raises(EFCError, match="more than 1 MB"):
        extract(bomb, tmp_path / "t2", 1_000_000)


@pytest.mark.parametrize("content", [b"", b"not an archive at all", b"\x1f\x8b\x08broken gzip"])
def test_what_is_no_archive_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.tgz").write_bytes(content)
    with pytest.raises(EFCError, match="not a readable archive"):
        extract(tmp_path / "x.tgz", tmp_path / "t", 1000)


def test_a_truncated_archive_is_refused(tmp_path: Path) -> None:
    whole = tar(tmp_path / "a.tgz", (member("x"), random.Random(0).randbytes(100_000)))
    whole.write_bytes(whole.read_bytes()[:50_000])
    with pytest.raises(EFCError, match="not a readable archive"):
        extract(whole, tmp_path / "t", 1 << 20)


def patched(path: Path, **fields: int) -> Path:
    """A zip file whose headers say something else of its one member: ``flags``, ``method`` or ``size``."""
    content = bytearray(path.read_bytes())
    for magic, at in (
        (b"PK\x03\x04", {"flags": 6, "method": 8, "size": 22}),
        (b"PK\x01\x02", {"flags": 8, "method": 10, "size": 24}),
    ):
        start = content.index(magic)
        for name, value in fields.items():
            width = 4 if name == "size" else 2
            content[start + at[name] : start + at[name] + width] = value.to_bytes(width, "little")
    path.write_bytes(content)
    return path


def test_a_member_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    twice = tar(tmp_path / "a.tgz", (member("x"), b"one"), (member("./x"), b"two"))
    with pytest.raises(EFCError, match=r"member '(\./)?x' is there twice"):
        extract(twice, tmp_path / "t", 1000)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as bundle:
        bundle.writestr("x", b"one")
        with pytest.warns(UserWarning, match="Duplicate"):
            bundle.writestr("x", b"two")
    with pytest.raises(EFCError, match="member 'x' is there twice"):
        extract(tmp_path / "a.zip", tmp_path / "z", 1000)


def test_a_member_in_the_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EFCError, match=r"not a readable archive \((File exists|Not a directory)\)"):
        extract(tar(tmp_path / "a.tgz", (member("x"), b"one"), (member("x/y"), b"two")), tmp_path / "t", 1000)
    with pytest.raises(EFCError, match="is there twice"):
        extract(tar(tmp_path / "b.tgz", (member("x/y"), b"one"), (member("x"), b"two")), tmp_path / "u", 1000)
    (tmp_path / "v").mkdir()
    with pytest.raises(EFCError, match="is there twice"):
        extract(tar(tmp_path / "c.tgz", (member("."), b"one")), tmp_path / "v", 1000)
    with pytest.raises(EFCError, match="File name too long"):
        extract(tar(tmp_path / "d.tgz", (member("x" * 300), b"one")), tmp_path / "w", 1000)


@pytest.mark.parametrize(
    ("fields", "says"),
    [({"flags": 1}, "member 'x' is encrypted"), ({"method": 99}, "method 99"), ({"method": 14}, "method 14"),
     ({"method": 12}, "method 12"), ({"size": 1}, "not a readable")],
)  # fmt: skip
def test_zip_files_that_are_encrypted_or_lie(fields: dict[str, int], says: str, tmp_path: Path) -> None:
    with pytest.raises(EFCError, match=says):
        extract(patched(zipped(tmp_path / "a.zip", x=b"hello" * 100), **fields), tmp_path / "t", 1000)


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_a_tar_header_that_promises_too_much(kind: bytes, tmp_path: Path) -> None:
    info = member("x", kind)
    info.size = 1 << 40
    (tmp_path / "a.tar").write_bytes(info.tobuf() + bytes(10_000))
    with pytest.raises(EFCError, match="not a readable archive"):
        extract(tmp_path / "a.tar", tmp_path / "t", 1000)


def test_a_name_that_swells_without_end_is_stopped(tmp_path: Path) -> None:
    info = member("x", tarfile.GNUTYPE_LONGNAME)
    info.size = 100 << 20
    with gzip.open(tmp_path / "a.tgz", "wb") as file:
        file.write(info.tobuf() + bytes(info.size))
    with pytest.raises(EFCError, match="unpacks to more than 1 MB"):
        extract(tmp_path / "a.tgz", tmp_path / "t", 1 << 20)


def test_too_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MEMBERS", 10)
    with pytest.raises(EFCError, match="more than 10 members"):
        extract(tar(tmp_path / "a.tgz", *[(member(f"{k}"), b"") for k in range(11)]), tmp_path / "t", 1000)
    with pytest.raises(EFCError, match="more than 10 members"):
        extract(zipped(tmp_path / "a.zip", **{f"m{k}": b"" for k in range(11)}), tmp_path / "z", 1000)


def test_a_device_an_archive_in_an_archive_and_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(EFCError, match="link or a device"):
        extract(tar(tmp_path / "a.tgz", (member("null", tarfile.CHRTYPE), b"")), tmp_path / "t", 1000)
    inner = tar(tmp_path / "in.tgz", (member("x"), b"one")).read_bytes()
    [written] = extract(tar(tmp_path / "out.tgz", (member("in.tgz"), inner)), tmp_path / "u", 10_000)
    assert written.read_bytes() == inner
    assert extract(tar(tmp_path / "none.tgz"), tmp_path / "v", 1000) == []
    assert extract(zipped(tmp_path / "none.zip"), tmp_path / "v", 1000) == []


def test_a_folder_in_the_place_of_an_archive(tmp_path: Path) -> None:
    with pytest.raises(EFCError, match="not a readable archive"):
        extract(tmp_path, tmp_path / "t", 1000)


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    file = zipped(tmp_path / "a.zip", **{"\u00e9": b"x"})
    file.write_bytes(file.read_bytes().replace("\u00e9".encode(), b"\xff\xfe"))
    with pytest.raises(EFCError, match="not a readable archive"):
        extract(file, tmp_path / "t", 1000)


@pytest.mark.parametrize("kind", ["zip", "tgz"])
def test_mutated_archives_are_unpacked_or_one_sentence(kind: str, tmp_path: Path) -> None:
    rng = random.Random(19)
    content = {"x": rng.randbytes(300), "d/y": b"y" * 3000}
    if kind == "zip":
        good = zipped(tmp_path / "a.zip", **{name.replace("/", "__"): data for name, data in content.items()})
    else:
        good = tar(tmp_path / "a.tgz", *[(member(name), data) for name, data in content.items()])
    for k, spoilt in enumerate(mutations(good.read_bytes(), rng, CASES)):
        (tmp_path / "b").write_bytes(spoilt)
        with contextlib.suppress(EFCError):
            extract(tmp_path / "b", tmp_path / f"t{k}", 10_000)
        shutil.rmtree(tmp_path / f"t{k}", ignore_errors=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([good.name, "b"])
