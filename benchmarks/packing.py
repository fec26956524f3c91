"""How much faster trials are side by side on the run axis than one by one, in one process.

    python benchmarks/packing.py --trials 64

The same settings, the same training; whole sweeps are timed, alone and together by turns. Prints the ratio per trial.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import torch

from efc.learners import find_learner
from efc.runs.config import make_config
from efc.runs.plan import Pack, expand, place_of
from efc.runs.worker import dataset_of, train_pack
from efc.search.samplers import scattered
from efc.search.space import space_of
from efc.search.sweep import trial_config


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", default="efc")
    parser.add_argument("--dataset", default="digits")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--alone", type=int, default=8, help="how many of them are also run one by one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    base = make_config({"methods": arguments.method, "dataset": arguments.dataset, "device": arguments.device})
    space = space_of(find_learner(arguments.method), base.rows[0].head)
    config = trial_config(base, scattered(space, arguments.trials), 1, base.epochs)
    place = place_of(config)
    data = dataset_of(place, config.dataset, config.encoder).digest()
    groups: dict[str, list] = {}
    for (run,) in expand(config, data, seeds=[100]):
        kind = json.dumps({key: value for key, value in run.options.items() if isinstance(value, str)})
        groups.setdefault(kind, []).append(run)
    runs = [run for members in groups.values() for run in members]
    ratios = []
    for _ in range(arguments.rounds):
        began = time.perf_counter()
        for members in groups.values():
            train_pack(Pack(tuple(members), place))
        together = (time.perf_counter() - began) / len(runs)
        began = time.perf_counter()
        for run in runs[:: max(1, len(runs) // arguments.alone)]:
            train_pack(Pack((run,), place))
        alone = (time.perf_counter() - began) / len(runs[:: max(1, len(runs) // arguments.alone)])
        ratios.append(alone / together)
        if not arguments.json:
            print(f"one by one {alone:.2f} s a trial, side by side {together:.2f} s: {ratios[-1]:.1f} times as fast")
    ratio = statistics.median(ratios)
    row = {"name": f"packing-{arguments.method}-{arguments.dataset}-{arguments.trials}", "ratio": ratio}
    print(json.dumps({"rows": [row], "threads": torch.get_num_threads()}) if arguments.json else f"ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
