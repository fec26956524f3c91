"""From a configuration to runs, and from runs to packs that train side by side on the run axis."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import torch

from efc.errors import EFCError
from efc.files import Json
from efc.learners import Options, find_learner
from efc.learners.head_policies import POLICIES
from efc.runs.config import Row, RunConfig
from efc.runs.identity import Run, code_of, digest
from efc.runs.results import RunSettings


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
    def settings(self) -> RunSettings:
        """What all of them share (seed and numbers are the first run's)."""
        return self.runs[0].settings

    @property
    def label(self) -> str:
        s = self.settings
        name = f"{s.method.rpartition(':')[2]} ({s.head}, {s.scenario})"
        return f"{s.dataset}: {name}, {len(self.runs)} runs"

    def options(self) -> Options:
        """The options of the learner: one value where all agree, a list where they differ."""
        return self.settings.options.together([run.settings.options for run in self.runs])


def place_of(config: RunConfig) -> Place:
    return Place(config.data_dir, config.encoder_weights, config.image_size, config.device)


def expand(config: RunConfig, data: str, seeds: Sequence[int] | None = None) -> list[list[Run]]:
    """The runs of every row, one per seed; ``data`` is the checksum of the data."""
    chosen = range(config.seeds) if seeds is None else seeds
    return [[Run.of(_settings(config, row, data, int(seed))) for seed in chosen] for row in config.rows]


def _settings(config: RunConfig, row: Row, data: str, seed: int) -> RunSettings:
    return RunSettings(
        dataset=config.dataset,
        encoder=config.encoder,
        tasks=config.tasks,
        classes_per_task=config.classes_per_task,
        order_seed=config.order_seed,
        validation=config.validation,
        evaluate=config.evaluate,
        epochs=config.epochs,
        batch_size=config.batch_size,
        hidden=config.hidden,
        activation=config.activation,
        class_weight=config.class_weight,
        stream=config.stream,
        data=data,
        method=row.method,
        head=row.head,
        scenario=row.scenario,
        options=row.options,
        code=code_of(row.method),
        seed=seed,
        diagnose=config.diagnose,
    )


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
    for pack in interrupted(checkpoints):
        if pack.runs and all(key in left for key in pack.runs):
            packs.append(Pack(tuple(left.pop(key) for key in pack.runs), place))
    groups: dict[str, list[Run]] = defaultdict(list)
    for run in left.values():
        groups[digest(_shared(run))].append(run)
    for members in groups.values():
        alone = members[0].settings.stream != "none"  # every seed draws an order of its own
        size = 1 if alone else at_most or fitting(members[0].settings, place.device, shape)
        packs += [Pack(tuple(members[at : at + size]), place) for at in range(0, len(members), size)]
    position = {run.id: k for k, run in enumerate(runs)}
    return sorted(packs, key=lambda pack: position[pack.runs[0].id])


def _shared(run: Run) -> dict[str, Json]:
    """What runs must have in common to be trained side by side."""
    free = run.settings.options.per_run()
    plain = run.settings.to_json()
    options = {key: value for key, value in run.settings.options.to_mapping().items() if key not in free}
    return {key: value for key, value in plain.items() if key not in ("seed", "options")} | {"options": options}


@dataclass(frozen=True)
class Interrupted:
    """A pack that left a checkpoint."""

    folder: Path
    runs: list[str]
    """Their ids, in order."""
    method: str
    """Empty, as is ``code``, in a checkpoint of a version that did not note them."""
    code: str


def interrupted(checkpoints: Path | None) -> list[Interrupted]:
    """Every pack that left a checkpoint."""
    found = []
    for folder in sorted(checkpoints.iterdir()) if checkpoints is not None and checkpoints.is_dir() else []:
        for note in sorted(folder.glob("*.json"), reverse=True):
            try:
                about = json.loads(note.read_text(encoding="utf-8"))
                names = (str(about.get(name, "")) for name in ("method", "code"))
                found.append(Interrupted(folder, [str(key) for key in about["runs"]], *names))
            except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue
            break
    return found


def check_size(settings: RunSettings, device: str, shape: tuple[int, int]) -> None:
    """Refuse, before anything is allocated, what cannot fit: weights, a gradient, and half of what the head keeps."""
    sizes = (shape[1], *settings.hidden, settings.tasks * settings.classes_per_task)
    weights = sum(a * b for a, b in pairwise(sizes))
    needed = 4 * (2 * weights + POLICIES[settings.head].numbers_kept(sizes) // 2)
    there = all_memory(device)
    if needed > there:
        net = "-".join(map(str, sizes))
        told = f"a network {net} with the head {settings.head} needs at least {needed / 2**30:,.0f} GiB"
        raise EFCError(f"hidden: {told}, and there are {there / 2**30:,.0f} GiB of memory; ask for narrower layers")


def fitting(settings: RunSettings, device: str, shape: tuple[int, int]) -> int:
    """How many runs of this kind fit into half of the memory that is free, by a generous estimate."""
    samples, d = shape
    sizes = (d, *settings.hidden, settings.tasks * settings.classes_per_task)
    parameters = sum(a * b for a, b in pairwise(sizes))
    numbers = 12 * parameters + (24 * settings.batch_size + 3 * 1024) * sum(sizes)
    numbers += find_learner(settings.method).numbers_kept(samples, sizes, settings.options)
    numbers += POLICIES[settings.head].numbers_kept(sizes)
    numbers += settings.tasks * parameters * settings.diagnose
    return max(1, min(1024, int(0.5 * free_memory(device) / (4 * numbers))))


def all_memory(device: str) -> int:
    """Bytes of the device, or of this machine, whether free or not."""
    if device != "cpu" and torch.cuda.is_available():
        return int(torch.cuda.mem_get_info()[1])
    return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def free_memory(device: str) -> int:
    """Bytes free on the device, or on this machine."""
    if device != "cpu" and torch.cuda.is_available():
        return int(torch.cuda.mem_get_info()[0])
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)
