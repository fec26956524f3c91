"""Choose a data set's shipped options on its validation split, and write them as a preset file.

    python benchmarks/tune.py --dataset digits --settings 192 --out src/efc/presets/digits.yaml

Every method gets the same number of settings, for every scenario and head policy: half of them a Sobol sequence over
the space its options declare (and, for the analytic head, its ridge), half another in a box around the best of the
first half, a quarter as wide in every direction. Settings that differ only in numbers train side by side on the run
axis. A quarter of the training data is the validation part, the test data are not looked at, and the seeds (from 100
on) are not those of reported results. A file that exists is added to.
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml

from efc.environment import pick_device
from efc.errors import EFCError
from efc.learners import HEADS, LEARNERS, Learner, find_learner
from efc.metrics import final_accuracy
from efc.presets import training_preset
from efc.streams import SCENARIOS, Stream, load, split
from efc.training import train

Setting = dict[str, Any]
Space = dict[str, Sequence[Any]]


def space_of(cls: type[Learner], head: str) -> Space:
    """What is searched: the declared space, and the ridge where the head is one big ridge regression."""
    space = dict(cls.options_type.space())
    return space if head != "analytic" else {"ridge": (1e-8, 1e-1)} | space


def around(space: Space, best: Setting) -> Space:
    """A box about a setting, a quarter as wide in the logarithm, inside the space; names as they are."""
    box: Space = {}
    for name, axis in space.items():
        if isinstance(axis[0], str):
            box[name] = (best[name],)
        else:
            reach = (axis[1] / axis[0]) ** 0.125
            box[name] = (max(axis[0], best[name] / reach), min(axis[1], best[name] * reach))
    return box


def points(space: Space, n: int) -> list[Setting]:
    """``n`` points of a space: numbers evenly in the logarithm, names in equal shares."""
    drawn = torch.quasirandom.SobolEngine(max(1, len(space)), scramble=True, seed=0).draw(n).tolist()
    return [{name: _at(axis, u) for (name, axis), u in zip(space.items(), p, strict=False)} for p in drawn]


def _at(axis: Sequence[Any], u: float) -> Any:
    if isinstance(axis[0], str):
        return axis[min(int(u * len(axis)), len(axis) - 1)]
    low, high = (math.log(bound) for bound in axis)
    return float(f"{math.exp(low + u * (high - low)):.2g}")


def packs(chosen: list[Setting], at_most: int) -> Iterator[tuple[Setting, list[Setting]]]:
    """Settings that agree in their names, ``at_most`` at a time: what they share, and each one's numbers."""
    groups: dict[tuple[tuple[str, str], ...], list[Setting]] = defaultdict(list)
    for setting in chosen:
        names = tuple((key, value) for key, value in setting.items() if isinstance(value, str))
        groups[names].append({key: value for key, value in setting.items() if not isinstance(value, str)})
    for names, members in groups.items():
        for at in range(0, len(members), at_most):
            yield dict(names), members[at : at + at_most]


def score(
    stream: Stream, cls: type[Learner], head: str, chosen: list[Setting], arguments: argparse.Namespace
) -> list[tuple[float, Setting]]:
    """Mean validation accuracy after the last task, for every setting."""
    seeds = [100 + k for k in range(arguments.seeds)]
    scored: list[tuple[float, Setting]] = []
    for shared, members in packs(chosen, arguments.pack):
        columns = {key: [member[key] for member in members for _ in seeds] for key in members[0]}
        learner = cls(
            (stream.n_features, *arguments.hidden, stream.n_outputs),
            [seed for _ in members for seed in seeds],
            cls.options_type.from_mapping({**shared, **columns}),
            head=head,
            device=pick_device(arguments.device),
        )
        result = train(learner, stream, arguments.epochs, arguments.batch_size, evaluate="validation")
        means = final_accuracy(result.accuracy_matrix).reshape(len(members), len(seeds)).mean(1)
        scored += [(float(mean), {**shared, **member}) for mean, member in zip(means, members, strict=True)]
    return scored


def search(stream: Stream, cls: type[Learner], head: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """The best setting of both halves."""
    space = space_of(cls, head)
    scored = score(stream, cls, head, points(space, arguments.settings // 2), arguments)
    box = around(space, max(scored, key=lambda entry: entry[0])[1])
    scored += score(stream, cls, head, points(box, arguments.settings - len(scored)), arguments)
    best, options = max(scored, key=lambda entry: entry[0])
    return {"options": options, "validation_accuracy": round(best, 2), "settings_tried": len(scored)}


def write(path: Path, preset: dict[str, Any]) -> None:
    """The preset file, with the command that made it in its head."""
    head = (__doc__ or "").strip().splitlines()
    head[2:3] = [f"    {line}" for line in preset["commands"]]
    comment = "".join(f"# {line}".rstrip() + "\n" for line in head)
    text = yaml.safe_dump(preset, sort_keys=False, default_flow_style=None, width=110)
    path.write_text(comment + text, encoding="utf-8")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="digits")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--methods", default=",".join(LEARNERS))
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--heads", default=",".join(HEADS))
    parser.add_argument("--settings", type=int, default=192)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--pack", type=int, default=192, help="settings trained side by side at most")
    parser.add_argument("--hidden", default="100,100")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--batch-size", type=int)
    arguments = parser.parse_args()
    arguments.hidden = [int(width) for width in arguments.hidden.split(",")]
    return arguments


def main() -> None:
    arguments = parse()
    dataset = load(arguments.dataset, data_dir=arguments.data_dir)
    exists = arguments.out.exists()
    preset: dict[str, Any] = yaml.safe_load(arguments.out.read_text(encoding="utf-8")) if exists else {}
    preset.setdefault("training", training_preset(dataset.name))
    arguments.epochs = arguments.epochs or preset["training"]["epochs"]
    arguments.batch_size = arguments.batch_size or preset["training"]["batch_size"]
    command = shlex.join(["python", "benchmarks/tune.py", *sys.argv[1:]])
    preset["commands"] = [*preset.get("commands", []), command]
    for scenario in arguments.scenarios.split(","):
        stream = split(dataset, scenario=scenario, validation=0.25).to(pick_device(arguments.device))
        for method in arguments.methods.split(","):
            cls = find_learner(method)
            for head in [head for head in arguments.heads.split(",") if head in cls.heads]:
                began = time.perf_counter()
                found = search(stream, cls, head, arguments)
                preset.setdefault(scenario, {}).setdefault(method, {})[head] = found
                write(arguments.out, preset)
                seconds = f"{time.perf_counter() - began:.0f} s"
                print(scenario, method, head, found, seconds, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        main()
    except EFCError as mistake:
        sys.exit(f"tune: {mistake}")
