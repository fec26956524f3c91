"""A real Ray cluster on loopback: a head and two nodes, one of them killed in the middle; same table as locally."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.planted import Planted

RAY = str(Path(sys.executable).parent / "ray")
ENVIRONMENT = os.environ | {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_health_check_period_ms": "500",
    "OMP_NUM_THREADS": "1",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
}
PROTECTED = ENVIRONMENT | {"RAY_AUTH_MODE": "token"}
"""A cluster that asks for the token (Ray 2.60 does by itself once it has made one); `efc` is only given it."""
BENCH = [
    "bench", "--methods", "sgd,ewc,derpp,efc", "--scenarios", "class,task", "--seeds", "2", "--epochs", "10",
    "--hidden", "40", "--device", "cpu", "--head", "least_squares",
]  # fmt: skip


def node(*arguments: str) -> subprocess.Popen[bytes]:
    """`ray start --block`, in a session of its own so that all of it can be killed."""
    command = [RAY, "start", *arguments, "--block", "--object-store-memory", "100000000", "--disable-usage-stats"]
    return subprocess.Popen(
        command, env=PROTECTED, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


@pytest.fixture
def cluster() -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"127.0.0.1:{port}"
    nodes = [
        node("--head", "--port", str(port), "--node-ip-address", "127.0.0.1", "--num-cpus", "0",
             "--include-dashboard", "false")
    ]  # fmt: skip
    try:
        wait_for(address, 1)
        # Two nodes with one address between them do not get on, nor do two that start at the same moment.
        for host in ("127.0.0.2", "127.0.0.3"):
            nodes.append(node("--address", address, "--node-ip-address", host, "--num-cpus", "1"))
            wait_for(address, len(nodes))
        yield address, nodes
    finally:
        for each in nodes:
            if each.poll() is None:
                os.killpg(each.pid, signal.SIGKILL)
            each.wait()


def wait_for(address: str, n: int) -> None:
    """Until so many nodes are up."""
    code = (
        "import sys, warnings; warnings.simplefilter('ignore'); import ray\n"
        "ray.init(address=sys.argv[1], log_to_driver=False, logging_level='ERROR')\n"
        "print(sum(node['Alive'] for node in ray.nodes()))\n"
    )
    deadline = time.monotonic() + 600
    done = None
    while time.monotonic() < deadline:
        done = subprocess.run([sys.executable, "-c", code, address], capture_output=True, text=True, env=PROTECTED)
        if done.returncode == 0 and int(done.stdout.split()[-1]) >= n:
            return
        time.sleep(0.5)
    pytest.fail(f"the cluster did not come up: {done and done.stderr}")


def numbers(folder: Path) -> Any:
    rows = json.loads((folder / "results.json").read_text())["rows"]
    return [{key: value for key, value in row.items() if key not in ("seconds", "environment")} for row in rows]


def test_a_cluster_that_loses_a_node_gives_the_local_table(
    tmp_path: Path, cluster: tuple[str, list[subprocess.Popen[bytes]]]
) -> None:
    address, nodes = cluster
    efc = [sys.executable, "-m", "efc"]
    alone = [*efc, *BENCH, "--workers", "1", "--out", "local"]
    local = subprocess.run(alone, cwd=tmp_path, capture_output=True, text=True)
    assert local.returncode == 0, local.stderr
    command = [*efc, *BENCH, "--engine", "ray", "--ray-address", address, "--out", "ray"]
    process = subprocess.Popen(command, cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    heard = ""
    for line in process.stderr:
        heard += line
        if "task 5/5 learned" in line:
            break
    assert process.poll() is None, heard
    os.killpg(nodes[1].pid, signal.SIGKILL)
    heard += process.stderr.read()
    process.stderr.close()
    assert process.wait(600) == 0, heard
    assert numbers(tmp_path / "ray") == numbers(tmp_path / "local")
    assert not Path("ray").exists()  # the nodes' own folder is this one: a relative --out must not mean it


def test_no_cluster_is_one_clear_error(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "efc", *BENCH, "--engine", "ray", "--ray-address", "127.0.0.1:1", "--out", "o"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 2, done.stderr
    assert "--ray-address: no Ray cluster at '127.0.0.1:1'" in done.stderr


@pytest.mark.slow
def test_workers_inherit_what_was_trusted(tmp_path: Path, cluster: tuple[str, list[subprocess.Popen[bytes]]]) -> None:
    Planted(tmp_path)
    (tmp_path / "c.yaml").write_text("methods: [sgd, 'planted:Planted']\n")
    quick = ["--seeds", "1", "--epochs", "1", "--hidden", "4", "--device", "cpu", "--config", "c.yaml"]
    command = [sys.executable, "-m", "efc", "bench", *quick, "--engine", "ray", "--ray-address", cluster[0]]
    refused = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=ENVIRONMENT)
    assert refused.returncode == 2, refused.stderr
    assert not (tmp_path / "it ran").exists()
    done = subprocess.run(
        [*command, "--trust", "--out", "o"], cwd=tmp_path, capture_output=True, text=True, env=ENVIRONMENT
    )
    assert done.returncode == 0, done.stderr
    assert [row["method"] for row in numbers(tmp_path / "o")] == ["sgd", "friendly"]
