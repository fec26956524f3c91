"""The packages that ``make dist`` makes: everything in them, nothing else, and they work outside the clone."""

from __future__ import annotations

import importlib.util
import shutil
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).parents[1] / "tools" / "dist.py"


@pytest.fixture(scope="module")
def dist() -> ModuleType:
    spec = importlib.util.spec_from_file_location("dist", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def built(dist: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    sdist, wheel = dist.build(tmp_path_factory.mktemp("dist"))
    return sdist, wheel


def test_the_packages_are_complete(dist: ModuleType, built: tuple[Path, Path]) -> None:
    assert dist.faults(*built) == []
    with zipfile.ZipFile(built[1]) as wheel:
        names = wheel.namelist()
    # What is no Python and easily forgotten: the page's parts, the presets, the mark that there are types.
    assert {"efc/py.typed", "efc/report/static/page.html", "efc/presets/digits.yaml"} <= set(names)
    assert not any(name.startswith(("tests", "benchmarks", "docs")) for name in names)
    with tarfile.open(built[0]) as sdist:
        assert any(name.endswith("/CHANGELOG.md") for name in sdist.getnames())


def test_what_is_missing_or_too_much_is_found(dist: ModuleType, built: tuple[Path, Path], tmp_path: Path) -> None:
    sdist, wheel = built
    wrong = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(wrong, "w") as new:
        for name in old.namelist():
            text = old.read(name)
            if name.endswith("METADATA"):
                text = text.replace(b"Requires-Python: >=3.11", b"Requires-Python: >=3.8")
            if name != "efc/presets/digits.yaml":
                new.writestr(name, text)
        new.writestr("efc/secret.txt", "x")
    assert dist.faults(sdist, wrong) == [
        "the wheel lacks efc/presets/digits.yaml",
        "the wheel holds efc/secret.txt, which is none of the package",
        "Requires-Python is '>=3.8', not '>=3.11'",
    ]


def test_the_demo_is_the_one_of_the_makefile(dist: ModuleType) -> None:
    assert dist.demo()[:3] == ["run", "--dataset", "digits"]
    assert "--seeds" in dist.demo()


@pytest.mark.slow
def test_the_wheel_works_in_a_fresh_environment(dist: ModuleType, built: tuple[Path, Path], tmp_path: Path) -> None:
    """Downloads torch; ``try_out`` leaves with an error if anything fails."""
    wheel = shutil.copy(built[1], tmp_path)
    dist.try_out(Path(wheel), tmp_path)
    assert (tmp_path / "demo" / "report.html").stat().st_size > 1_000_000


def test_a_container_is_built_of_what_the_package_needs_alone() -> None:
    """Whatever else lies in a clone would stay in a layer of the image."""
    root = FILE.parents[1]
    lines = (root / "examples" / "serve" / "Dockerfile").read_text().splitlines()
    copied = {name for line in lines if line.startswith("COPY ") for name in line.split()[1:-1]}
    assert copied == {"pyproject.toml", "README.md", "LICENSE", "src"}
    assert all((root / name).exists() for name in copied)
    assert not any(line.startswith("ADD ") for line in lines)
