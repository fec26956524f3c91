"""What results were computed with, and the device that is asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version

import pytest
import torch

from efc.environment import code_version, describe_environment, pick_device
from efc.errors import EFCError


def test_devices_by_name() -> None:
    assert pick_device("cpu") == torch.device("cpu")
    assert pick_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    beyond = f"cuda:{torch.cuda.device_count()}"
    with pytest.raises(EFCError, match=rf"device: '{beyond}' is not available here .*; use cpu or auto"):
        pick_device(beyond)


def test_the_description_is_of_this_process() -> None:
    said = describe_environment(torch.device("cpu"))
    assert said["efc"] == code_version()
    assert said["python"] == ".".join(map(str, sys.version_info[:3]))
    assert said["torch"] == torch.__version__
    assert said["numpy"] == version("numpy")
    assert said["scikit-learn"] == version("scikit-learn")
    assert (said["device"], said["threads"]) == ("cpu", torch.get_num_threads())
    assert json.loads(json.dumps(said)) == said


def test_the_number_of_threads_is_told_as_it_is() -> None:
    code = "import torch; torch.set_num_threads(3); from efc.environment import describe_environment as d; "
    command = [sys.executable, "-c", code + "print(d(torch.device('cpu'))['threads'])"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert (done.returncode, done.stdout.strip()) == (0, "3"), done.stderr
