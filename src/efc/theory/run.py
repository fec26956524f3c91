"""Running experiments: one after the other, each written down as soon as it is done, none done twice."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from efc.environment import describe_environment
from efc.errors import EFCError
from efc.files import make_folder, to_json, write_atomically
from efc.report.style import save
from efc.theory.finding import Experiment, Tell
from efc.theory.situation import Scale, Situation, prepare


def examine(
    experiments: Sequence[Experiment],
    scale: Scale,
    folder: Path,
    device: torch.device,
    command: str,
    tell: Tell,
    overwrite: bool = False,
) -> list[dict[str, Any]]:
    """The documents of all experiments; those that ``folder`` holds already are read, not computed."""
    make_folder(folder, "--out")
    _same_scale(folder, scale, overwrite)
    situation: Situation | None = None
    found = []
    for number, experiment in enumerate(experiments, 1):
        file = folder / f"{experiment.name}.json"
        prefix = f"[{number}/{len(experiments)}] {experiment.name}"
        if file.exists() and not overwrite:
            tell(f"{prefix}: already in {folder}")
            found.append(_judged(experiment, json.loads(file.read_text(encoding="utf-8")), folder))
            continue
        if situation is None:
            tell(f"Task A of {scale.dataset} is learned ({scale.seeds} seeds) ...")
            situation = prepare(scale, device, folder)
        tell(f"{prefix}: {experiment.title}")
        document = _measured(experiment, situation, command, _telling(tell, prefix))
        found.append(_judged(experiment, document, folder))
        tell(f"{prefix}: {document['seconds']:.0f} s")
    return found


def _telling(tell: Tell, prefix: str) -> Tell:
    return lambda text: tell(f"{prefix}: {text}")


def _same_scale(folder: Path, scale: Scale, overwrite: bool) -> None:
    """A folder holds findings of one scale; ``overwrite`` forgets what it has."""
    file, wanted = folder / "scale.json", scale.to_mapping()
    if file.exists() and not overwrite and json.loads(file.read_text(encoding="utf-8")) != wanted:
        raise EFCError(f"--out: {folder} already holds findings of another scale; choose another folder or --overwrite")
    if overwrite:
        (folder / "theta_A.safetensors").unlink(missing_ok=True)
    write_atomically(file, to_json(wanted))


def _measured(experiment: Experiment, situation: Situation, command: str, tell: Tell) -> dict[str, Any]:
    began = time.perf_counter()
    numbers = experiment.measure(situation, tell)
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "command": command,
        "scale": situation.scale.to_mapping(),
        "seconds": round(time.perf_counter() - began, 1),
        "peak_memory_GiB": round(peak_memory(), 2),
        "environment": describe_environment(situation.device),
        "numbers": numbers,
    }


def _judged(experiment: Experiment, document: dict[str, Any], folder: Path) -> dict[str, Any]:
    """With the verdicts, written down, and the figure drawn. The JSON comes last: it says that all is there."""
    document = document | {"claims": [asdict(claim) for claim in experiment.judge(document["numbers"])]}
    figure = experiment.draw(document["numbers"])
    for form in ("png", "svg"):
        save(figure, folder / f"{experiment.name}.{form}")
    write_atomically(folder / f"{experiment.name}.json", to_json(document))
    return document


def peak_memory() -> float:
    """GiB this process has held at most."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


def without_numbers(document: dict[str, Any]) -> dict[str, Any]:
    """What a page tells of an experiment: everything but the measurements themselves."""
    return {key: value for key, value in document.items() if key != "numbers"}


def markdown(documents: Sequence[dict[str, Any]]) -> str:
    """The table claim / paper / measured / verdict."""
    lines = ["| experiment | claim | paper | measured | verdict |", "|---|---|---|---|---|"]
    for document in documents:
        for claim in document["claims"]:
            cells = (claim[key].replace("|", "\\|") for key in ("statement", "paper", "measured", "verdict"))
            lines.append(f"| {document['experiment']} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
