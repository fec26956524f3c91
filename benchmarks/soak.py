"""Kill a benchmark at random moments and resume it, for as long as asked; the numbers must stay those of a whole run.

python benchmarks/soak.py --minutes 30
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

BENCH = ["bench", "--methods", "all", "--scenarios", "class,task", "--seeds", "2", "--epochs", "6", "--hidden", "40,40"]


def command(out: Path, workers: int) -> list[str]:
    return [sys.executable, "-m", "efc", *BENCH, "--workers", str(workers), "--out", str(out)]


def numbers(folder: Path) -> Any:
    rows = json.loads((folder / "results.json").read_text(encoding="utf-8"))["rows"]
    return [{key: value for key, value in row.items() if key not in ("seconds", "environment")} for row in rows]


def one_round(out: Path, workers: int, moments: random.Random) -> int:
    """Kill and resume until it is finished; returns how often it was killed."""
    kills = 0
    while True:
        process = subprocess.Popen(command(out, workers), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        try:
            process.wait(moments.uniform(3, 12))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
            continue
        if process.returncode != 0:
            sys.exit(f"soak: exit code {process.returncode} after {kills} kills\n{process.stderr.read()}")
        return kills


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    moments = random.Random(arguments.seed)
    deadline = time.monotonic() + 60 * arguments.minutes
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole"
        subprocess.run(command(whole, arguments.workers), check=True, capture_output=True)
        expected, rounds, kills = numbers(whole), 0, 0
        while rounds == 0 or time.monotonic() < deadline:
            out = Path(folder) / f"round-{rounds}"
            kills += one_round(out, arguments.workers, moments)
            rounds += 1
            if numbers(out) != expected:
                sys.exit(f"soak: round {rounds} differs from the whole run")
            print(f"round {rounds}: bit-identical after {kills} kills in all", flush=True)


if __name__ == "__main__":
    main()
