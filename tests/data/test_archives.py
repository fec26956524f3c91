"""Archives that would write elsewhere, link, or swell without end are refused."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from efc.data.archives import extract
from efc.errors import EFCError


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
    import random

    whole = tar(tmp_path / "a.tgz", (member("x"), random.Random(0).randbytes(100_000)))
    whole.write_bytes(whole.read_bytes()[:50_000])
    with pytest.raises(EFCError, match="not a readable archive"):
        extract(whole, tmp_path / "t", 1 << 20)
