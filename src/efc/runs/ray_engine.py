"""Packs as Ray tasks on a cluster. Ray is optional.

Checkpoints lie in the experiment folder, which all nodes must see. Ray starts a task again when its worker or its node
dies; it then goes on from its last checkpoint. A node that joins is used for what is still waiting.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from efc.errors import EFCError, MissingError
from efc.runs.engines import Engine, Outcome, Surroundings, attempt
from efc.runs.plan import Pack

RETRIES = 5


def _import() -> Any:
    _take_token()
    try:
        import ray
    except ImportError:
        raise MissingError("--engine", "ray", "ray") from None
    return ray


def _take_token() -> None:
    """Show a cluster the token where there is one: Ray from 2.60 on makes one and then asks for it.

    A cluster that asks for none does not mind.
    """
    named = os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH")
    if named or (Path.home() / ".ray" / "auth_token").exists():
        os.environ.setdefault("RAY_AUTH_MODE", "token")


def _reach(address: str | None) -> None:
    """Fail at once where nobody listens: Ray itself would go on trying for minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return  # auto, or none: Ray looks for a cluster itself
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as problem:
        raise EFCError(f"--ray-address: no Ray cluster at {address!r}: {problem}") from None


def _brief(problem: Exception) -> str:
    """The first line of what Ray says, which may go on for pages."""
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0][:300]


@contextmanager
def own_handlers() -> Iterator[None]:
    """Ray sets a handler for SIGTERM that ends the process with code 1; ours comes back."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class RayEngine(Engine):
    """All packs are handed to the cluster at once; it decides where and when."""

    slots = 1_000_000
    grace = 10.0
    """A shared file system shows a new file after seconds."""

    def __init__(self, surroundings: Surroundings, address: str | None, device: str) -> None:
        super().__init__(surroundings)
        self.ray = _import()
        if not self.ray.is_initialized():
            _reach(address)
            if address is None and not os.environ.get("RAY_ADDRESS"):
                surroundings.tell("Ray: no --ray-address is given; starting a cluster of this machine alone ...")
            else:
                surroundings.tell(f"Ray: connecting to the cluster at {address or os.environ['RAY_ADDRESS']} ...")
            try:
                # The workers must import the same package, and what lies in the folder of the user's own method.
                path = os.pathsep.join(
                    [str(Path(__file__).parents[2]), str(Path.cwd()), os.environ.get("PYTHONPATH", "")]
                )
                environment = {"env_vars": {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}}
                with own_handlers():
                    self.ray.init(address=address, runtime_env=environment, log_to_driver=False, logging_level="ERROR")
            except Exception as problem:  # Ray has no type for a start that failed or took too long
                if address is None:
                    told = "name a running cluster with --ray-address, or use --engine local"
                    raise EFCError(f"--engine: Ray could not be started here ({_brief(problem)}); {told}") from None
                raise EFCError(f"--ray-address: no Ray cluster at {address!r}: {_brief(problem)}") from None
        self.gpus = 1 if device != "cpu" and self.ray.cluster_resources().get("GPU", 0) else 0
        # A worker stands in its node's folder, not in ours: a relative path would mean another place there.
        self.checkpoints = None if surroundings.checkpoints is None else surroundings.checkpoints.resolve()
        self.halt = (self.checkpoints or Path.cwd()) / f".stop-{os.getpid()}-{time.time_ns()}"
        self.task = self.ray.remote(_train)
        self.pending: dict[Any, Pack] = {}

    def start(self, pack: Pack) -> None:
        s = self.surroundings
        wanted = {"num_cpus": 1, "num_gpus": self.gpus, "max_retries": RETRIES, "name": pack.label}
        reference = self.task.options(**wanted).remote(pack, self.checkpoints, str(self.halt), s.every)
        self.pending[reference] = pack

    def wait(self, timeout: float) -> list[Outcome]:
        if not self.pending:
            return []
        ready, _ = self.ray.wait(list(self.pending), num_returns=1, timeout=timeout)
        ended = []
        for reference in ready:
            pack = self.pending.pop(reference)
            try:
                outcome, told = self.ray.get(reference)
            except self.ray.exceptions.RayError as problem:
                outcome, told = Outcome(pack, "failed", message=f"{type(problem).__name__}: {problem}"), []
            for text in told:
                self.surroundings.tell(text)
            if outcome.kind == "done" and self.surroundings.listener is not None:
                s = pack.settings
                self.surroundings.listener(pack, s.tasks, s.epochs, s.epochs)
            ended.append(outcome)
        return ended

    def stop(self) -> None:
        self.told_to_stop = time.monotonic()
        self.surroundings.saving()
        self.halt.parent.mkdir(parents=True, exist_ok=True)
        self.halt.touch()

    def close(self) -> None:
        for reference in self.pending:
            self.ray.cancel(reference, force=True)
        self.halt.unlink(missing_ok=True)
        self.ray.shutdown()


def _train(pack: Pack, checkpoints: Path | None, halt: str, every: float) -> tuple[Outcome, list[str]]:
    """What a Ray worker does; it stops when the file ``halt`` appears."""
    told: list[str] = []
    looked = [0.0, False]

    def stop() -> bool:
        if time.monotonic() - looked[0] > 0.5:  # a shared file system is not asked after every batch
            looked[0], looked[1] = time.monotonic(), Path(halt).exists()
        return bool(looked[1])

    return attempt(pack, checkpoints, stop, None, told.append, every), told
