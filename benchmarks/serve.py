"""The goals of `efc serve`, measured on real processes over loopback.

    python benchmarks/serve.py --json serve.json
    python benchmarks/serve.py --only load,fuzz

    load     16 connections ask for predictions of one sample each while 50 samples a second are learned
    kill     the server is killed (SIGKILL) at random moments and started again; nothing accepted may be missing, and
             the state at the end is that of the journal replayed, bit for bit
    memory   100,000 samples, and what the process takes on the way
    fuzz     malformed, oversized, slow and hostile requests

The table says for each goal what was measured. Exit code 1 if one is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from efc.environment import describe_environment
from serve_client import Connection, ServerProcess, digits, folder_for
from serve_fuzz import hostile


@dataclass
class Goal:
    """One line of the table."""

    what: str
    goal: str
    measured: str
    met: bool
    numbers: dict[str, float]


TEACHERS = 4
"""Connections over which samples come to be learned, one sample a request."""

# -- load -------------------------------------------------------------------------------------------------------------


async def _load(port: int, seconds: float, clients: int, offered: float, taught: float) -> tuple[list[float], float]:
    """Seconds that each prediction took, and samples learned a second. ``offered`` 0: as fast as answers come."""
    x, y = digits()
    end = time.perf_counter() + seconds
    times: list[float] = []
    learned = 0

    async def ask(number: int) -> None:
        connection, rng = Connection(port), random.Random(number)
        due = time.perf_counter() + rng.random() * (clients / offered if offered else 0)
        while time.perf_counter() < end:
            if offered:
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                due += clients / offered
            began = time.perf_counter()
            status, _ = await connection.ask("/predict", {"input": rng.choice(x)})
            assert status == 200, status
            times.append(time.perf_counter() - began)
        connection.close()

    async def teach(number: int) -> None:
        nonlocal learned
        connection, due = Connection(port), time.perf_counter() + number / taught
        while time.perf_counter() < end:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            due += TEACHERS / taught
            k = learned % len(x)
            learned += 1
            status, _ = await connection.ask("/learn", {"input": x[k], "label": y[k]})
            assert status == 202, status
        connection.close()

    await asyncio.gather(*(teach(k) for k in range(TEACHERS)), *(ask(k) for k in range(clients)))
    return times, learned / seconds


def load(options: argparse.Namespace) -> list[Goal]:
    """Predictions while learning goes on, at the rate that is asked for, and as fast as they come."""
    found = []
    with folder_for("load") as folder, ServerProcess(f"{folder}/m.safetensors", "--features", "64") as server:
        server.ready()
        asyncio.run(_load(server.port, 15, 16, 50, 50))  # past the first window, where learning begins anew
        for offered in (options.offered, 0.0):
            times, learned = asyncio.run(_load(server.port, options.seconds, 16, offered, 50))
            state = asyncio.run(Connection(server.port).ask("/state"))[1]
            times.sort()
            rate = len(times) / options.seconds
            median, late = 1e3 * statistics.median(times), 1e3 * times[int(0.99 * len(times))]
            how = f"{offered:g}/s offered" if offered else "as fast as answers come"
            numbers = {
                "rate": rate, "median_ms": median, "p99_ms": late, "worst_ms": 1e3 * times[-1], "learned": learned,
                "queued": state["queued"],
            }  # fmt: skip
            told = f"{rate:.0f}/s, median {median:.1f} ms, 99th percentile {late:.1f} ms; {learned:.0f}/s learned"
            met = rate >= 200 and median < 20 and late < 100 and learned >= 49 and state["queued"] < 100
            goal = ">= 200/s, median < 20 ms, 99th percentile < 100 ms"
            what = f"predictions, batch 1, 16 clients, while learning 50/s ({how})"
            found.append(Goal(what, goal if offered else "no goal", told, met if offered else True, numbers))
    return found


# -- kill -------------------------------------------------------------------------------------------------------------


async def _post_until_killed(
    port: int, rng: random.Random, kill: Callable[[], None], after: float
) -> dict[int, object]:
    """Teach over three connections until the server is dead; the batches that were accepted, by their number."""
    x, y = digits()
    kept: dict[int, object] = {}

    async def teach() -> None:
        connection = Connection(port)
        try:
            while True:
                some = [rng.randrange(len(x)) for _ in range(rng.randint(1, 8))]
                body = {"inputs": [x[i] for i in some], "labels": [y[i] for i in some]}
                status, told = await connection.ask("/learn", body)
                if status == 202:
                    kept[told["sequence"]] = body
                elif status == 429:
                    await asyncio.sleep(0.05)
                else:
                    raise RuntimeError(f"{status}: {told}")
        except (OSError, EOFError):
            return

    async def wait() -> None:
        await asyncio.sleep(after)
        kill()

    await asyncio.gather(wait(), *(teach() for _ in range(3)))
    return kept


def _kept(file: Path) -> tuple[dict[str, bytes], object]:
    """All of a model's file; in which order its parts stand there is nobody's choice."""
    from efc.classifiers.file_format import read

    state, about = read(file)
    return {key: value.numpy().tobytes() for key, value in state.items()}, about


def kill(options: argparse.Namespace) -> list[Goal]:
    """Kill, start, compare."""
    from efc.serve.journal import replay
    from efc.serve.learning import learn
    from efc.serve.pupil import Pupil, begun

    rng, kept, tracebacks = random.Random(options.seed), dict[int, object](), 0
    with folder_for("kill") as folder:
        model = Path(folder) / "m.safetensors"
        arguments = [str(model), "--features", "64", "--hidden", "50", "--beside", "sgd", "--keep-journal"]
        arguments += ["--snapshot-every", "400", "--queue", "200"]
        for number in range(options.kills):
            with ServerProcess(*arguments) as server:
                if rng.random() < 0.1:  # while it starts, or replays
                    time.sleep(4 * rng.random())
                else:
                    server.ready()
                    more = asyncio.run(_post_until_killed(server.port, rng, server.kill, rng.random()))
                    assert not kept.keys() & more.keys(), "a number was given twice"
                    kept |= more
                server.kill()
                tracebacks += server.stderr().count("Traceback")
            if number % 10 == 9:
                print(f"{number + 1} kills, {len(kept)} batches accepted", file=sys.stderr)
        with ServerProcess(*arguments) as server:
            code = server.ready().end()
            tracebacks += server.stderr().count("Traceback")
        torch.set_num_threads(1)
        torch.set_flush_denormal(True)
        pupil, beside = Pupil(begun("efc", (50,), None, 0)), Pupil(begun("sgd", (50,), None, 0))
        lost, there = 0, {}
        for record in replay(Path(f"{model}.journal"), 64):
            there[record.sequence] = {"inputs": record.x.tolist(), "labels": list(record.labels)}
            learn(record, pupil, beside)
        for number, body in kept.items():
            lost += len(body["labels"]) if there.get(number) != body else 0  # type: ignore[index]
        last = Pupil.load(model)[1]
        pupil.save(Path(folder) / "again", last)
        beside.save(Path(folder) / "again beside", last)
        same = _kept(Path(folder) / "again") == _kept(model)
        same_beside = _kept(Path(folder) / "again beside") == _kept(Path(f"{model}.journal") / "beside.safetensors")
    samples = sum(len(body["labels"]) for body in kept.values())  # type: ignore[index]
    told = f"{lost} of {samples} lost; state {'the same' if same and same_beside else 'DIFFERS'}, bit for bit"
    if tracebacks:
        told += f"; {tracebacks} tracebacks"
    numbers = {"kills": options.kills, "accepted": samples, "lost": lost, "same": same and same_beside, "code": code}
    what = f"accepted samples lost in {options.kills} kill -9 at random moments"
    goal = "0, final state bit-identical to the journal replayed"
    return [Goal(what, goal, told, lost == 0 and same and same_beside and not tracebacks, numbers)]


# -- memory -----------------------------------------------------------------------------------------------------------


async def _memory(port: int, samples: int) -> list[tuple[int, int]]:
    x, y = digits()
    connection, rng, sent, found = Connection(port), random.Random(0), 0, list[tuple[int, int]]()
    while sent < samples:
        some = [rng.randrange(len(x)) for _ in range(50)]
        body = {"inputs": [x[i] for i in some], "labels": [y[i] for i in some]}
        status, _ = await connection.ask("/learn?wait=1" if sent % 5000 == 4950 else "/learn", body)
        if status == 429:
            await asyncio.sleep(0.2)
            continue
        assert status == 202, status
        sent += 50
        if sent % 5000 == 0:
            await connection.ask("/predict", {"inputs": x[:50]})
            await connection.ask("/history")
            state = (await connection.ask("/state"))[1]
            found.append((sent, state["memory"]["process_bytes"]))
    return found


def memory(options: argparse.Namespace) -> list[Goal]:
    """What the process takes while it learns."""
    with folder_for("memory") as folder:
        arguments = [f"{folder}/m.safetensors", "--features", "64", "--beside", "sgd"]
        with ServerProcess(*arguments) as server:
            found = asyncio.run(_memory(server.ready().port, options.samples))
            server.end()
    third = len(found) // 3
    early = statistics.median(b for _, b in found[third : 2 * third])
    late = statistics.median(b for _, b in found[2 * third :])
    growth = late / early - 1
    told = (
        f"{found[0][1] / 2**20:.0f} MiB after {found[0][0]:,}, {found[-1][1] / 2**20:.0f} MiB after {found[-1][0]:,}; "
        f"last third against the second: {100 * growth:+.1f} %"
    )
    numbers = {f"{n}": float(b) for n, b in found}
    return [Goal(f"memory over {options.samples:,} samples", "flat", told, growth < 0.02, numbers)]


# -- fuzz -------------------------------------------------------------------------------------------------------------


def fuzz(options: argparse.Namespace) -> list[Goal]:
    """What nobody should send."""
    with folder_for("fuzz") as folder, ServerProcess(f"{folder}/m.safetensors", "--demo", "--rate", "1e5") as server:
        server.ready()
        kinds = asyncio.run(hostile(server.port, options.requests, options.seed))
        x, _ = digits()
        alive = asyncio.run(Connection(server.port).ask("/predict", {"input": x[0]}))[0] == 200
        code = server.end()
        tracebacks, mistakes = server.stderr().count("Traceback"), kinds.get("500", 0)
    told = f"{tracebacks} tracebacks, {mistakes} answers 500, service {'alive' if alive else 'DEAD'}; " + ", ".join(
        f"{name}: {n}" for name, n in sorted(kinds.items())
    )
    met = tracebacks == 0 and mistakes == 0 and alive and code == 130
    what = f"malformed, oversized, slow or hostile requests ({options.requests:,})"
    return [Goal(what, "0 tracebacks, service alive", told, met, {"tracebacks": tracebacks, **kinds})]


PARTS: dict[str, Callable[[argparse.Namespace], list[Goal]]] = {
    "load": load, "kill": kill, "memory": memory, "fuzz": fuzz,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help="some of load, kill, memory, fuzz")
    parser.add_argument("--seconds", type=float, default=30.0, help="of load")
    parser.add_argument("--offered", type=float, default=300.0, help="predictions a second that are asked for")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the numbers here")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    found = [goal for name in options.only.split(",") for goal in PARTS[name](options)]
    table = Table()
    for name in ("what", "goal", "measured", ""):
        table.add_column(name)
    for goal in found:
        table.add_row(goal.what, goal.goal, goal.measured, "yes" if goal.met else "NO")
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    if options.json:
        document = {"goals": [asdict(goal) for goal in found], "environment": describe_environment(torch.device("cpu"))}
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    sys.exit(not all(goal.met for goal in found))


if __name__ == "__main__":
    main()
