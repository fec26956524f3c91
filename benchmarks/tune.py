"""Choose a data set's shipped options on its validation split, and write them as a preset file.

    python benchmarks/tune.py --dataset digits --out src/efc/presets/digits.yaml

Every method gets the same number of settings (192), for every scenario and head policy; all settings that differ only
in numbers train side by side on the run axis. A quarter of the training data is the validation part, the test data are
not looked at, and the seeds (100, 101, 102) are not those of the reported results.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from efc.environment import pick_device
from efc.learners import HEADS, find_learner
from efc.metrics import final_accuracy
from efc.presets import training_preset
from efc.streams import SCENARIOS, Dataset, load, split
from efc.training import train

SEEDS = (100, 101, 102)


def grid(low: float, high: float, n: int) -> list[float]:
    """``n`` values from ``low`` to ``high``, evenly spaced in the logarithm, rounded to two digits."""
    return [float(f"{v:.1e}") for v in np.geomspace(low, high, n)]


SPACES: dict[str, list[tuple[dict[str, str], dict[str, list[float]]]]] = {
    "sgd": [({}, {"lr": grid(1e-6, 1e-1, 192)})],
    "ewc": [({}, {"lr": grid(1e-5, 3e-2, 16), "strength": grid(1e-1, 1e10, 12)})],
    "efc": [
        (
            {"feedback": feedback, "normalise": normalise, "head_rule": "signal"},
            {"lr": grid(3e-5, 1e-2, 6), "beta": betas, "head_beta": [1.0, 10.0]},
        )
        for feedback in ("jacobian", "least_control")
        for normalise, betas in (("neuron", grid(1e-2, 1e1, 4)), ("none", grid(1e0, 1e3, 4)))
    ],
}


def search(dataset: Dataset, method: str, scenario: str, head: str, device: str) -> dict[str, Any]:
    """The best setting of a method's space by mean validation accuracy after the last task."""
    cls = find_learner(method)
    stream = split(dataset, scenario=scenario, validation=0.25).to(pick_device(device))
    scored: list[tuple[float, dict[str, Any]]] = []
    for fixed, axes in SPACES[method]:
        settings = list(itertools.product(*axes.values()))
        columns = {key: [s[i] for s in settings for _ in SEEDS] for i, key in enumerate(axes)}
        learner = cls(
            (stream.n_features, 100, 100, stream.n_outputs),
            [seed for _ in settings for seed in SEEDS],
            cls.options_type.from_mapping({**fixed, **columns}),
            head=head,
            device=pick_device(device),
        )
        result = train(learner, stream, evaluate="validation", **training_preset(dataset.name))
        scores = final_accuracy(result.accuracy_matrix).reshape(len(settings), len(SEEDS)).mean(1)
        scored += [
            (score, {**fixed, **dict(zip(axes, s, strict=True))}) for score, s in zip(scores, settings, strict=True)
        ]
    scored.sort(key=lambda entry: -entry[0])
    best, options = scored[0]
    return {"options": options, "validation_accuracy": round(float(best), 2), "settings_tried": len(scored)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="digits")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--heads", default=",".join(HEADS))
    arguments = parser.parse_args()
    dataset = load(arguments.dataset, data_dir=arguments.data_dir)
    preset: dict[str, Any] = {"training": training_preset(dataset.name)}
    for scenario in arguments.scenarios.split(","):
        preset[scenario] = {}
        for method in SPACES:
            preset[scenario][method] = {}
            for head in arguments.heads.split(","):
                began = time.perf_counter()
                found = search(dataset, method, scenario, head, arguments.device)
                preset[scenario][method][head] = found
                print(
                    scenario, method, head, found, f"{time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True
                )
    command = f"python benchmarks/tune.py --dataset {dataset.name} --scenarios {arguments.scenarios}"
    lines = (__doc__ or "").replace("python benchmarks/tune.py --dataset digits", command).strip().splitlines()
    comment = "".join(f"# {line}".rstrip() + "\n" for line in lines)
    arguments.out.write_text(comment + yaml.safe_dump(preset, sort_keys=False, default_flow_style=None, width=110))


if __name__ == "__main__":
    main()
