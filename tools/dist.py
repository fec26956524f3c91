"""The packages: an sdist and a wheel in ``dist``, looked through, and the wheel tried in a fresh environment.

``make dist`` does it all. It builds from a copy, so that nothing which happens to lie in the clone gets into them.
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path

ROOT = Path(__file__).parents[1]
PARTS = (
    "pyproject.toml", "MANIFEST.in", "README.md", "CHANGELOG.md", "CITATION.cff", "LICENSE", "SECURITY.md",
    "constraints.txt", "src",
)  # fmt: skip
NO_SOURCE = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.pyc", ".*")
BUILD = "import sys\nfrom setuptools import build_meta as b\nout = sys.argv[1]\nb.build_sdist(out)\nb.build_wheel(out)"


def build(out: Path) -> tuple[Path, Path]:
    """(sdist, wheel), freshly built into a folder."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "project"
        copy.mkdir()
        for part in PARTS:
            source = ROOT / part
            (shutil.copytree(source, copy / part, ignore=NO_SOURCE) if source.is_dir() else shutil.copy(source, copy))
        done = subprocess.run(
            [sys.executable, "-c", BUILD, str(out.resolve())], cwd=copy, capture_output=True, text=True
        )
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    stem = f"equilibrium_fisher_control-{project()['version']}"
    return out / f"{stem}.tar.gz", out / f"{stem}-py3-none-any.whl"


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def shipped() -> set[str]:
    """What a wheel has to hold: every file of the package, by its path in it."""
    files = (path for path in (ROOT / "src" / "efc").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(ROOT / "src").as_posix() for path in files}


def faults(sdist: Path, wheel: Path) -> list[str]:
    """What is wrong with the packages, a line for each."""
    told = project()
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        info = next(name.rpartition("/")[0] for name in names if name.endswith(".dist-info/METADATA"))
        metadata = message_from_string(archive.read(f"{info}/METADATA").decode())
        entries = archive.read(f"{info}/entry_points.txt").decode()
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    own = {name for name in names if not name.startswith(info)}
    found = [f"the wheel lacks {name}" for name in sorted(shipped() - own)]
    found += [f"the wheel holds {name}, which is none of the package" for name in sorted(own - shipped())]
    needed = {f"src/{name}" for name in shipped()} | {*PARTS} - {"src"}
    found += [f"the sdist lacks {name}" for name in sorted(needed - in_sdist)]
    found += _wrong_metadata(metadata, told)
    if "efc = efc.cli:main" not in entries:
        found.append("the wheel has no command efc")
    heading = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    if heading is None or heading[1] not in ("Unreleased", told["version"]):
        found.append(f"CHANGELOG.md begins with {heading and heading[1]}, pyproject.toml says {told['version']}")
    return found


def _wrong_metadata(metadata: Message, told: dict) -> list[str]:
    """The fields that a reader of the package sees, against pyproject.toml."""
    wanted = {
        "Name": told["name"],
        "Version": told["version"],
        "Summary": told["description"],
        "Requires-Python": told["requires-python"],
        "License-Expression": told["license"],
        "License-File": "LICENSE",
        "Description-Content-Type": "text/markdown",
    }
    found = [f"{key} is {metadata[key]!r}, not {value!r}" for key, value in wanted.items() if metadata[key] != value]
    extras = set(metadata.get_all("Provides-Extra", []))
    found += [f"the extra {name} is not there" for name in told["optional-dependencies"] if name not in extras]
    if str(metadata.get_payload()).strip() != (ROOT / "README.md").read_text(encoding="utf-8").strip():
        found.append("the description is not README.md")
    return found


def demo() -> list[str]:
    """The arguments of the command of ``make demo``, without the folder it writes to."""
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    command = re.search(r"\$\(BIN\)/efc (run .*?)--out ", recipe)
    if command is None:
        sys.exit("Makefile: no demo that could be tried")
    return shlex.split(command[1])


def try_out(wheel: Path, folder: Path) -> None:
    """Install the wheel into an environment of its own, outside the clone, and run the demo from there."""
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    constraints = str(ROOT / "constraints.txt")
    for command in (
        [str(python), "-m", "pip", "install", "-q", "-c", constraints, f"{wheel.resolve()}[plots,report]"],
        [str(python.parent / "efc"), *demo(), "--out", "demo"],
        [str(python), "-c", "import efc; assert 'site-packages' in efc.__file__, efc.__file__"],
    ):
        print(shlex.join(command), flush=True)
        subprocess.run(command, cwd=folder, check=True)
    for name in ("results.json", "matrices.png", "report.html"):
        if not (folder / "demo" / name).is_file():
            sys.exit(f"the demo left no {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--no-try", action="store_true", help="Build and look, but do not install.")
    given = parser.parse_args()
    sdist, wheel = build(given.out)
    if found := faults(sdist, wheel):
        sys.exit("\n".join(found))
    print(f"{sdist}\n{wheel}: complete, as pyproject.toml says")
    if not given.no_try:
        print("Installing the wheel into a fresh environment; torch may take minutes ...", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            try_out(wheel, Path(folder))
        print("The wheel works outside the clone.")


if __name__ == "__main__":
    main()
