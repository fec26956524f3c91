"""From a configuration to runs, and from runs to packs that train side by side on the run axis."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from efc.learners import find_learner
from efc.runs.config import Row, RunConfig
from efc.runs.identity import Run, code_of, digest

_ELSEWHERE = ("rows", "seeds", "device", "data_dir", "encoder_weights", "image_size")
"""Settings that are not part of a run's identity: the data's checksum stands for where and how they were found."""


@dataclass(frozen=True)
class Place:
    """Where the data are found and the training takes place: no part of what a run is."""

    data_dir: str | None = None
    encoder_weights: str | None = None
    image_size: int = 32
    device: str = "auto"


@dataclass(frozen=True)
class Pack:
    """Runs that differ in nothing but seeds and numbers: one training."""

    runs: tuple[Run, ...]
    place: Place = field(default_factory=Place)

    @property
    def id(self) -> str:
        return digest([run.id for run in self.runs])

    @property
    def settings(self) -> dict[str, Any]:
        """What all of them share (seed and numbers are the first run's)."""
        return self.runs[0].settings

    @property
    def label(self) -> str:
        s = self.settings
        name = f"{s['method'].rpartition(':')[2]} ({s['head']}, {s['scenario']})"
        return f"{s['dataset']}: {name}, {len(self.runs)} runs"

    def options(self) -> dict[str, Any]:
        """The options of the learner: one value where all agree, a list where they differ."""
        each = [run.options for run in self.runs]
        return {
            key: first if all(options[key] == first for options in each) else [options[key] for options in each]
            for key, first in each[0].items()
        }


def place_of(config: RunConfig) -> Place:
    return Place(config.data_dir, config.encoder_weights, config.image_size, config.device)


def expand(config: RunConfig, data: str, seeds: Sequence[int] | None = None) -> list[list[Run]]:
    """The runs of every row, one per seed; ``data`` is the checksum of the data."""
    common = {key: value for key, value in asdict(config).items() if key not in _ELSEWHERE} | {"data": data}
    common["hidden"] = list(config.hidden)
    chosen = range(config.seeds) if seeds is None else seeds
    return [[Run.of(common | _of_row(row) | {"seed": int(seed)}) for seed in chosen] for row in config.rows]


def _of_row(row: Row) -> dict[str, Any]:
    return asdict(row) | {"code": code_of(row.method)}


SOLVED = {"analytic": 7, "compensated": 12, "input_compensated": 12}
"""Heads that keep moments: how many square matrices of them there are in memory at a time."""


def make_packs(
    runs: Sequence[Run],
    place: Place,
    checkpoints: Path | None,
    at_most: int | None = None,
    shape: tuple[int, int] = (60_000, 1300),
) -> list[Pack]:
    """Group runs into packs: first those that an interrupted training had, then as many together as fit.

    ``at_most`` runs go into a pack; None: as many as memory holds for training data of ``shape`` (N, d).
    """
    left = {run.id: run for run in runs}
    packs = []
    for ids in interrupted(checkpoints).values():
        if all(key in left for key in ids):
            packs.append(Pack(tuple(left.pop(key) for key in ids), place))
    groups: dict[str, list[Run]] = defaultdict(list)
    for run in left.values():
        groups[digest(_shared(run))].append(run)
    for members in groups.values():
        size = at_most or fitting(members[0].settings, place.device, shape)
        packs += [Pack(tuple(members[at : at + size]), place) for at in range(0, len(members), size)]
    position = {run.id: k for k, run in enumerate(runs)}
    return sorted(packs, key=lambda pack: position[pack.runs[0].id])


def _shared(run: Run) -> dict[str, Any]:
    """What runs must have in common to be trained side by side."""
    free = find_learner(run.settings["method"]).options_type.per_run()
    options = {key: value for key, value in run.options.items() if key not in free}
    return {key: value for key, value in run.settings.items() if key not in ("seed", "options")} | {"options": options}


def interrupted(checkpoints: Path | None) -> dict[Path, list[str]]:
    """The runs of every pack that left a checkpoint, in their order, by its folder."""
    found = {}
    for folder in sorted(checkpoints.iterdir()) if checkpoints is not None and checkpoints.is_dir() else []:
        for note in sorted(folder.glob("*.json"), reverse=True):
            try:
                found[folder] = [str(key) for key in json.loads(note.read_text(encoding="utf-8"))["runs"]]
            except (OSError, ValueError, KeyError, TypeError):
                continue
            break
    return found


def fitting(settings: dict[str, Any], device: str, shape: tuple[int, int]) -> int:
    """How many runs of this kind fit into half of the memory that is free, by a generous estimate."""
    (n, d), hidden, B = shape, settings["hidden"], settings["batch_size"]
    outputs = settings["tasks"] * settings["classes_per_task"]
    units = d + sum(hidden) + outputs
    parameters = sum(a * b for a, b in zip([d, *hidden], [*hidden, outputs], strict=True))
    numbers = 12 * parameters + (24 * B + 3 * 1024) * units
    if settings["method"] == "full_fisher":
        numbers += n * units
    if settings["head"] in SOLVED:  # its moments, in float64, with the copies their solution needs
        features = (hidden or [d])[-1] + (d if settings["head"] == "input_compensated" else 0)
        numbers += 2 * SOLVED[settings["head"]] * (features + outputs) ** 2
    if find_learner(settings["method"]).options_type.from_mapping(settings["options"]).remembers:
        numbers += parameters + sum(_moments(width, settings["options"]["rank"]) for width in hidden)
        numbers += _moments(d, settings["options"]["rank"]) if settings["options"]["step"] == "natural" else 0
    return max(1, min(1024, int(0.5 * free_memory(device) / (4 * numbers))))


def _moments(width: int, rank: int) -> int:
    """The moments of a layer's inputs in float64, their copy for the steps, and what working them out needs."""
    return 8 * (width + 1) * (rank if 0 < rank < width else width + 1)


def free_memory(device: str) -> int:
    """Bytes free on the device, or on this machine."""
    if device != "cpu" and torch.cuda.is_available():
        return int(torch.cuda.mem_get_info()[0])
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)
