"""A Ray cluster on loopback whose nodes die, for ``soak.py``: a head without cores, and two nodes with one each."""

from __future__ import annotations

import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

CODE = (
    "import sys, warnings; warnings.simplefilter('ignore'); import ray\n"
    "ray.init(address=sys.argv[1], log_to_driver=False, logging_level='ERROR')\n"
    "print(sum(node['Alive'] for node in ray.nodes()))\n"
)


class Cluster:
    """Every node is a session of its own, so that all of it can be killed."""

    def __init__(self) -> None:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        os.environ.update(RAY_AUTH_MODE="token", RAY_health_check_period_ms="500")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.hosts = count(2)
        self.head: subprocess.Popen[bytes] | None = None
        self.nodes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Cluster:
        self.head = self._start("--head", "--port", str(self.port), "--node-ip-address", "127.0.0.1", "--num-cpus", "0",
                                "--include-dashboard", "false")  # fmt: skip
        self._wait_for(1)
        for n in (2, 3):  # two that start at the same moment do not get on
            self._join()
            self._wait_for(n)
        return self

    def __exit__(self, *error: object) -> None:
        for node in [*self.nodes, *([self.head] if self.head else [])]:
            self._kill(node)

    def lose_a_node(self, moments: random.Random) -> None:
        """One dies, another one joins, at an address of its own."""
        self._kill(self.nodes.pop(moments.randrange(len(self.nodes))))
        self._join()

    def _join(self) -> None:
        host = f"127.0.0.{next(self.hosts)}"
        self.nodes.append(self._start("--address", self.address, "--node-ip-address", host, "--num-cpus", "1"))

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        ray = str(Path(sys.executable).parent / "ray")
        command = [ray, "start", *arguments, "--block", "--object-store-memory", "100000000", "--disable-usage-stats"]
        return subprocess.Popen(
            command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )  # fmt: skip

    def _kill(self, node: subprocess.Popen[bytes]) -> None:
        if node.poll() is None:
            os.killpg(node.pid, signal.SIGKILL)
        node.wait()

    def _wait_for(self, n: int) -> None:
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            done = subprocess.run([sys.executable, "-c", CODE, self.address], capture_output=True, text=True)
            if done.returncode == 0 and int(done.stdout.split()[-1]) >= n:
                return
            time.sleep(0.5)
        raise RuntimeError("the Ray cluster did not come up")
