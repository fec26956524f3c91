"""Break a benchmark at random moments, in several ways, and go on with it: its numbers must be those of a whole run.

    python benchmarks/soak.py --breaks 1000 --jobs 2
    python benchmarks/soak.py --kinds two,disk --minutes 30 --json soak.json

What is done to it (``--kinds``):

    kill       SIGKILL to the command
    term       SIGTERM, or SIGINT, to the command
    worker     SIGKILL to one of its worker processes; the command goes on by itself
    two        two commands on one results folder, SIGKILL to either
    disk       its folder, a file system of its own, is full for a while (needs leave to mount one)
    ray        SIGKILL to a node of a Ray cluster on loopback, which another one joins (needs ray)

After every break what had been stored must still be there, and no command may end in a traceback. A round is over when
the benchmark is finished: then its results are compared, number for number. Exit code 1 if anything was lost or
differs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from efc.learners import LEARNERS
from soak_cluster import Cluster
from soak_command import Command, TroubleError, prepare, run_for

SETTINGS = ["--scenarios", "class,task", "--seeds", "2", "--epochs", "1", "--hidden", "10", "--device", "cpu"]
OFTEN = ["--checkpoint-minutes", "0.0005"]
"""A checkpoint after every few batches."""
METHODS = 2
"""Of all methods, so many in a round."""
NOT_COMPARED = ("seconds", "environment", "environments")
"""What may differ between two computations of the same thing."""
DISK = 24
"""MiB of the small file system."""


@dataclass
class Tally:
    """What has been done so far, and what went wrong."""

    wanted: int
    deadline: float
    breaks: Counter[str] = field(default_factory=Counter)
    rounds: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def over(self) -> bool:
        return self.breaks.total() >= self.wanted or time.monotonic() > self.deadline or bool(self.wrong)

    def document(self) -> dict[str, Any]:
        return {"breaks": dict(self.breaks), "rounds": dict(self.rounds), "wrong": self.wrong}


@dataclass
class Round:
    """One benchmark, from its beginning to its end; what breaks it returns its numbers then."""

    out: Path
    methods: Sequence[str]
    cold: bool
    """Whether its commands begin as a shell begins them."""
    moments: random.Random
    whole: float
    """Seconds of processor time that it takes if nobody breaks it."""
    count: Callable[[], None]
    stored: set[str] = field(default_factory=set)

    def command(self, *extra: str) -> Command:
        self.out.parent.mkdir(parents=True, exist_ok=True)
        asked = ["bench", "--methods", ",".join(self.methods), *SETTINGS, *OFTEN, "--out", str(self.out)]
        return Command([*asked, *(extra or ("--workers", "1"))], self.cold)

    def moment(self) -> float:
        return self.moments.uniform(0.02, 0.8) * self.whole

    def broken(self) -> None:
        """Note a break; what had been stored must still be there."""
        self.count()
        present = {file.name for file in (self.out / "runs").glob("*.json")}
        if lost := self.stored - present:
            raise TroubleError(f"{len(lost)} stored runs were lost")
        self.stored = present

    def undisturbed(self, *extra: str) -> tuple[dict[Any, Any], float]:
        """Its numbers, and the processor time that it took."""
        command = self.command(*extra)
        if not command.finished():
            raise TroubleError("the benchmark fails even if nobody breaks it")
        return numbers(self.out), sum(command.used.values())

    def signals(self, *signals: int) -> dict[Any, Any]:
        """Send the command one of these signals, again and again, until it comes through."""
        while True:
            command = self.command()
            if run_for(self.moment(), command):
                command.send(self.moments.choice(signals))
                done = command.finished()
                self.broken()
            else:
                done = command.finished()
            if done:
                return numbers(self.out)

    def worker(self) -> dict[Any, Any]:
        while True:
            command = self.command("--workers", "2")
            while run_for(self.moment(), command):
                if alive := command.workers():
                    try:
                        os.kill(self.moments.choice(alive), signal.SIGKILL)
                    except ProcessLookupError:
                        continue
                    self.broken()
            if command.finished():
                return numbers(self.out)

    def two(self) -> dict[Any, Any]:
        commands = [self.command(), self.command()]
        while run_for(self.moment(), *commands):
            victim = self.moments.randrange(2)
            commands[victim].send(signal.SIGKILL)
            commands[victim].finished()
            self.broken()
            commands[victim] = self.command()
        ended = [command.finished() for command in commands]
        return numbers(self.out) if all(ended) else self.signals(signal.SIGKILL)

    def disk(self) -> dict[Any, Any]:
        with small_disk(self.out.parent):
            while True:
                command = self.command()
                full = run_for(self.moment(), command)
                if full:
                    fill(self.out.parent / "ballast")
                done = command.finished()
                (self.out.parent / "ballast").unlink(missing_ok=True)
                if full:
                    self.broken()
                if done:
                    return numbers(self.out)

    def ray(self) -> dict[Any, Any]:
        """Its workers are no children of the command: here the clock counts."""
        with Cluster() as cluster:
            while True:
                command = self.command("--engine", "ray", "--ray-address", cluster.address)
                while not command.ended:
                    time.sleep(self.moments.uniform(3, 12))
                    if command.ended:
                        break
                    cluster.lose_a_node(self.moments)
                    self.broken()
                if command.finished():
                    return numbers(self.out)


KINDS: dict[str, Callable[[Round], Any]] = {
    "kill": lambda round: round.signals(signal.SIGKILL),
    "term": lambda round: round.signals(signal.SIGTERM, signal.SIGINT),
    "worker": Round.worker,
    "two": Round.two,
    "disk": Round.disk,
    "ray": Round.ray,
}


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A file system of a few MiB, at this folder."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}m", "efc-soak", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(file: Path) -> None:
    """Until there is no room left."""
    with open(file, "wb", buffering=0) as ballast:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    ballast.write(bytes(size))
            except OSError:
                continue


def numbers(folder: Path) -> dict[Any, Any]:
    """What must be the same, by scenario and method."""
    rows = json.loads((folder / "results.json").read_text(encoding="utf-8"))["rows"]
    compared = [{key: value for key, value in row.items() if key not in NOT_COMPARED} for row in rows]
    return {(row["scenario"], row["method"]): row for row in compared}


@dataclass
class Soak:
    """All rounds, and what they are compared with."""

    folder: Path
    tally: Tally
    report: Path | None
    """The counts, after every round."""
    whole: dict[str, float] = field(default_factory=dict)
    """Seconds of processor time of a round, as its commands begin: warm, cold, or warm with worker processes."""

    def measure(self, kinds: Sequence[str]) -> None:
        """How long an undisturbed round takes."""
        ways: dict[str, tuple[str, ...]] = {"warm": (), "cold": ()}
        if "worker" in kinds:
            ways["workers"] = ("--workers", "2")
        some = sorted(LEARNERS)[:METHODS]
        for way, extra in ways.items():
            for n in range(
                3 if way == "warm" else 1
            ):  # the first one has the process begin that others are forked from
                place = self.folder / f"whole-{way}-{n}"
                took = Round(place, some, way == "cold", random.Random(0), 0.0, int).undisturbed(*extra)[1]
                self.whole[way] = min(took, self.whole.get(way, took))
        told = ", ".join(f"{seconds:.1f} s {way}" for way, seconds in self.whole.items())
        print(f"a round takes, in processor time: {told}", flush=True)

    def play(self, kind: str, number: int, cold: bool) -> None:
        """One round, if there is still something to do."""
        if self.tally.over:
            return
        place = self.folder / f"{number}-{kind}"
        moments = random.Random(number)
        methods = moments.sample(sorted(LEARNERS), METHODS)

        def count() -> None:
            with self.tally.lock:
                self.tally.breaks[f"{kind}, cold" if cold else kind] += 1

        try:
            expected, _ = Round(place / "whole", methods, False, moments, 0.0, int).undisturbed()
            whole = self.whole["workers" if kind == "worker" else "cold" if cold else "warm"]
            if KINDS[kind](Round(place / "broken" / "out", methods, cold, moments, whole, count)) != expected:
                raise TroubleError("the numbers differ from those of the whole run")
        except TroubleError as trouble:
            self.tally.wrong.append(f"round {number}, {kind}: {trouble}")
        except subprocess.CalledProcessError as problem:
            self.tally.wrong.append(f"round {number}, {kind}: cannot be done here: {problem}")
        shutil.rmtree(place, ignore_errors=True)
        with self.tally.lock:
            self.tally.rounds[kind] += 1
            total, wrong = self.tally.breaks.total(), len(self.tally.wrong)
            print(f"round {number}, {kind}: {total} breaks in all, {wrong} wrong", flush=True)
            if self.report:
                self.report.write_text(json.dumps(self.tally.document(), indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default="kill,term,worker,two", help=f"some of {','.join(KINDS)}, in turns")
    parser.add_argument("--breaks", type=int, default=100, help="stop after so many (default: 100)")
    parser.add_argument("--minutes", type=float, default=600, help="begin no round after so many")
    parser.add_argument("--jobs", type=int, default=1, help="rounds side by side")
    parser.add_argument("--cold", type=int, default=10, help="begin every Nth command cold (default: 10; 1: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the counts to this file")
    given = parser.parse_args()
    kinds = given.kinds.split(",")
    if strange := [kind for kind in kinds if kind not in KINDS]:
        sys.exit(f"--kinds: {', '.join(strange)} is unknown; there are {', '.join(KINDS)}")
    prepare()
    tally = Tally(given.breaks, time.monotonic() + 60 * given.minutes)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        soak = Soak(folder, tally, given.json)
        soak.measure(kinds)
        with ThreadPoolExecutor(given.jobs) as pool:
            for number in range(100 * given.breaks):
                cold = number % given.cold == given.cold - 1
                pool.submit(soak.play, kinds[number % len(kinds)], given.seed + number, cold)
    print(json.dumps(tally.document(), indent=1))
    sys.exit(1 if tally.wrong else 0)


if __name__ == "__main__":
    main()
