"""The goals of `efc serve`, measured on real processes over loopback.

    python benchmarks/serve.py --json docs/results/serve.json && python tools/serve_page.py
    python benchmarks/serve.py --only load,fuzz

    load     16 connections ask for predictions of one sample each while 50 samples a second are learned, several times:
             what counts is the worst of these runs
    kill     the server is killed (SIGKILL) at random moments and started again; nothing accepted may be missing, and
             the state at the end is that of the journal replayed, bit for bit
    memory   100,000 samples, and what the process takes on the way
    fuzz     malformed, oversized, slow and hostile requests

The table says for each goal what was measured. Exit code 1 if one is missed. Of a JSON file that is there already, only
the parts are replaced that are measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
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
    numbers: dict[str, object]


TEACHERS = 4
"""Connections over which samples come to be learned, one sample a request."""

# -- load -------------------------------------------------------------------------------------------------------------


async def _load(port: int, seconds: float, clients: int, offered: float, taught: float) -> list[float]:
    """Seconds that each prediction took, in their order. ``offered`` 0: as fast as answers come."""
    x, y = digits()
    end = time.perf_counter() + seconds
    times: list[float] = []
    sent = 0

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
        nonlocal sent
        connection, due = Connection(port), time.perf_counter() + number / taught
        while time.perf_counter() < end:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            due += TEACHERS / taught
            k = sent % len(x)
            sent += 1
            status, _ = await connection.ask("/learn", {"input": x[k], "label": y[k]})
            assert status == 202, status
        connection.close()

    await asyncio.gather(*(teach(k) for k in range(TEACHERS)), *(ask(k) for k in range(clients)))
    return sorted(times)


def _one_run(port: int, seconds: float, offered: float) -> dict[str, float]:
    """What a run of so many seconds showed; the server says how much it has learned."""
    before, began = asyncio.run(Connection(port).ask("/state"))[1]["seen"], time.perf_counter()
    times = asyncio.run(_load(port, seconds, 16, offered, 50))
    state, took = asyncio.run(Connection(port).ask("/state"))[1], time.perf_counter() - began
    return {
        "rate": len(times) / took, "median_ms": 1e3 * statistics.median(times),
        "p99_ms": 1e3 * times[int(0.99 * len(times))], "worst_ms": 1e3 * times[-1],
        "learned": (state["seen"] - before) / took, "queued": state["queued"],
    }  # fmt: skip


def load(options: argparse.Namespace) -> list[Goal]:
    """Predictions while learning goes on, at the rate that is asked for, and as fast as they come."""
    runs: dict[float, list[dict[str, float]]] = {options.offered: [], 0.0: []}
    with folder_for("load") as folder, ServerProcess(f"{folder}/m.safetensors", "--features", "64") as server:
        server.ready()
        asyncio.run(_load(server.port, 15, 16, 50, 50))  # past the first window, where learning begins anew
        for number in range(options.runs):
            for offered, found in runs.items():
                found.append(_one_run(server.port, options.seconds, offered))
                told = ", ".join(f"{name} {value:.1f}" for name, value in found[-1].items())
                print(f"run {number + 1} of {options.runs}, {offered:g}/s offered: {told}", file=sys.stderr)
    return [_of_runs(offered, found) for offered, found in runs.items()]


def _of_runs(offered: float, runs: list[dict[str, float]]) -> Goal:
    """The worst of several runs, each number by itself."""
    worst = {name: (min if name in ("rate", "learned") else max)(run[name] for run in runs) for name in runs[0]}
    met = worst["rate"] >= 200 and worst["median_ms"] < 20 and worst["p99_ms"] < 100
    met = met and worst["learned"] >= 49 and worst["queued"] < 100
    told = f"{worst['rate']:.0f} a second, median {worst['median_ms']:.1f} ms, 99th percentile {worst['p99_ms']:.0f} ms"
    told += f", {worst['learned']:.1f} a second learned"
    how = f"{offered:g} a second offered" if offered else "as fast as answers come"
    what = f"predictions, batch 1, 16 clients, while learning 50 samples a second; {how}; worst of {len(runs)} runs"
    goal = ">= 200 a second, median < 20 ms, 99th percentile < 100 ms, >= 49 a second learned" if offered else ""
    return Goal(what, goal, told, met or not offered, {"worst": worst, "runs": runs})


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
    numbers: dict[str, object] = {f"{n}": b for n, b in found}
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
    told = f"{tracebacks} tracebacks, {mistakes} answers 500, service {'alive' if alive else 'DEAD'}"
    print(", ".join(f"{name}: {n}" for name, n in sorted(kinds.items())), file=sys.stderr)
    met = tracebacks == 0 and mistakes == 0 and alive and code == 130
    what = f"malformed, oversized, slow or hostile requests ({options.requests:,})"
    numbers: dict[str, object] = {"tracebacks": tracebacks, **kinds}
    return [Goal(what, "0 tracebacks, service alive", told, met, numbers)]


PARTS: dict[str, Callable[[argparse.Namespace], list[Goal]]] = {
    "load": load, "kill": kill, "memory": memory, "fuzz": fuzz,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help="some of load, kill, memory, fuzz")
    parser.add_argument("--seconds", type=float, default=30.0, help="of a run of load")
    parser.add_argument("--runs", type=int, default=3, help="of load")
    parser.add_argument("--offered", type=float, default=300.0, help="predictions a second that are asked for")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the numbers here")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    found: list[Goal] = []
    for name in options.only.split(","):
        busy = os.getloadavg()[0]
        goals = PARTS[name](options)
        found += goals
        if options.json:
            _write(options, name, {"busy": busy, "goals": [asdict(goal) for goal in goals]})
    table = Table()
    for name in ("what", "goal", "measured", ""):
        table.add_column(name)
    for goal in found:
        table.add_row(goal.what, goal.goal, goal.measured, "yes" if goal.met else "NO")
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    sys.exit(not all(goal.met for goal in found))


def _priority() -> int:
    """Below zero where other programs have to give way to this one and to its server."""
    group = Path("/proc/self/autogroup")
    told = re.search(r"nice (-?\d+)", group.read_text()) if group.exists() else None
    return min(os.getpriority(os.PRIO_PROCESS, 0), int(told[1]) if told else 0)


def _write(options: argparse.Namespace, name: str, part: dict[str, object]) -> None:
    """A part into the file, with what it was measured with and how busy the machine was before it began."""
    about = {key: value for key, value in vars(options).items() if key not in ("only", "json")}
    part |= {
        "options": about,
        "cores": os.cpu_count(),
        "priority": _priority(),
        "environment": describe_environment(torch.device("cpu")),
    }
    document = json.loads(options.json.read_text()) if options.json.exists() else {}
    ordered = {key: part if key == name else document[key] for key in PARTS if key == name or key in document}
    options.json.write_text(json.dumps(ordered, indent=1) + "\n")


if __name__ == "__main__":
    main()
