"""What the results were computed with."""

from __future__ import annotations

import platform
import re
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import torch

from efc.errors import EFCError


@cache
def code_version() -> str:
    try:
        return version("equilibrium-fisher-control")
    except PackageNotFoundError:
        return "uninstalled"


def check_device(name: str) -> str:
    """A name that a device may have, here or elsewhere."""
    own = re.escape(torch._C._get_privateuse1_backend_name())  # what a program has made of torch's spare device
    if not re.fullmatch(rf"auto|cpu|(cuda|{own})(:\d{{1,3}})?", str(name)):
        raise EFCError(f"device: expected auto, cpu, cuda or cuda:N, got {name!r}")
    return name


def pick_device(name: str) -> torch.device:
    """``auto`` takes the first GPU if there is one."""
    if check_device(name) == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise EFCError(f"device: {name!r} is not available here ({torch.cuda.device_count()} GPUs); use cpu or auto")
    return device


def describe_environment(device: torch.device) -> dict[str, str | int]:
    """Versions and hardware, for the results document."""
    return {
        "efc": code_version(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": version("numpy"),
        "scikit-learn": version("scikit-learn"),
        "platform": platform.platform(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
    }
