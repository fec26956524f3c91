"""`efc doctor`: what is here, what is missing, and the command that would mend it."""

from __future__ import annotations

import os
import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import torch
import typer

from efc.data.store import SPECS, data_root, here
from efc.environment import code_version
from efc.errors import install, visible

EXTRAS = {
    "matplotlib": ("plots", "pictures of results"),
    "plotly": ("report", "the report page"),
    "pillow": ("images", "your own folders of pictures"),
    "efficientnet-lite-pytorch": ("encoders", "the encoder efficientnet-lite0"),
    "optuna": ("optuna", "efc sweep --sampler optuna"),
    "ray": ("ray", "--engine ray"),
    "river": ("river", "River's classifiers"),
    "tensorboard": ("tensorboard", "--log tensorboard"),
    "mlflow-skinny": ("mlflow", "--log mlflow"),
    "wandb": ("wandb", "--log wandb"),
    "pandas": ("frames", "frames, ARFF, Parquet and CSV files"),
    "datasets": ("hugging-face", "Hugging Face's data sets"),
    "onnx": ("onnx", "the export to ONNX"),
    "starlette": ("serve", "efc serve"),
    "uvicorn": ("serve", "efc serve"),
    "avalanche-lib": ("avalanche", "Avalanche's benchmarks and strategies"),
}
NEEDED = ("torch", "numpy", "scikit-learn", "safetensors", "typer", "rich", "PyYAML")


def doctor_command(
    data_dir: Annotated[Path | None, typer.Option(help="Where data are kept. Default: $EFC_DATA or the cache.")] = None,
) -> None:
    """Versions, devices, data; what is missing and the command that would mend it. Exit code 1 if efc cannot run.

    For instance: efc doctor --data-dir data
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    machine = f"{platform.system()} {platform.machine()}, {cores} cores"
    print(f"efc {code_version()}, Python {platform.python_version()}, {machine}")
    whole = True
    for name in NEEDED:
        found = installed(name)
        whole = whole and found is not None
        _tell(name, found, install())
    for name, (extra, purpose) in EXTRAS.items():
        _tell(name, installed(name), f"for {purpose}: {install(extra)}", optional=True)
    for line in devices():
        print(line)
    root = data_root(data_dir)
    print(f"data folder {visible(str(root))}{_space(root)}")
    print("  digits: here (embedded)")
    for name in SPECS:
        state = {"yes": "here", "no": "not here"}.get(found := here(name, root), found)
        print(f"  {name}: {state}" + ("" if found == "yes" else f"; get it with: efc data get {name}"))
    if not whole:
        raise typer.Exit(1)


def installed(name: str) -> str | None:
    """The version of a package, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def devices() -> list[str]:
    """What can be computed on."""
    if not torch.cuda.is_available():
        return [f"cpu, {torch.get_num_threads()} threads; no CUDA GPU that this torch can use"]
    names = [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
    return [f"cuda:{k} {name}, {torch.cuda.mem_get_info(k)[0] / 2**30:.0f} GiB free" for k, name in enumerate(names)]


def _tell(name: str, found: str | None, mend: str, optional: bool = False) -> None:
    missing = "not installed (optional), " if optional else "MISSING: "
    print(f"  {name} {found}" if found else f"  {name}: {missing}{mend}")


def _space(folder: Path) -> str:
    """How much room is left, if that can be said."""
    there = next((p for p in (folder, *folder.parents) if p.exists()), None)
    return "" if there is None else f", {shutil.disk_usage(there).free / 2**30:.0f} GiB free"
