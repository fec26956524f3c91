"""Running experiments: one after the other, each written down as soon as it is done, none done twice."""

from __future__ import annotations

import math
import re
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
from efc.runs.reading import SEALS, parse, seal, sealed
from efc.theory.finding import Experiment, Tell
from efc.theory.situation import Scale, Situation, prepare

BAR = "\\|"
"""A stroke within a table's cell."""


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
            found.append(_read(experiment, file, folder))
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
    if file.exists() and not overwrite and _json(file) != wanted:
        raise EFCError(f"--out: {folder} already holds findings of another scale; choose another folder or --overwrite")
    if overwrite:
        (folder / "theta_A.safetensors").unlink(missing_ok=True)
    write_atomically(file, to_json(wanted))


def _json(file: Path) -> Any:
    """What a file of this folder holds."""
    try:
        content = file.read_bytes()
        document = parse(content)
        if isinstance(document, dict) and sealed(content, document):
            return {key: value for key, value in document.items() if key not in SEALS}
        return document
    except (OSError, ValueError) as problem:
        raise _damaged(file, problem) from None


def _damaged(file: Path, problem: Exception) -> EFCError:
    told = " ".join(f"{type(problem).__name__}: {problem}".split())
    return EFCError(f"--out: {file} is damaged ({told}); take it away, and the same command measures it again")


def _read(experiment: Experiment, file: Path, folder: Path) -> dict[str, Any]:
    """An experiment that was measured before, judged and drawn anew."""
    document = _json(file)
    try:
        return _judged(experiment, document | {"experiment": experiment.name, "title": experiment.title}, folder)
    except EFCError:
        raise
    except Exception as problem:  # numbers that no measurement of ours has left there
        raise _damaged(file, problem) from None


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
    document = document | {"numbers": rounded(document["numbers"])}
    document |= {"claims": [asdict(claim) for claim in experiment.judge(document["numbers"])]}
    figure = experiment.draw(document["numbers"])
    for form in ("png", "svg"):
        save(figure, folder / f"{experiment.name}.{form}")
    write_atomically(folder / f"{experiment.name}.json", seal(document))
    return document


def peak_memory() -> float:
    """GiB this process has held at most."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


def rounded(value: Any) -> Any:
    """Numbers to six digits: what is written down, and what a verdict is given on."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) and math.isfinite(value) else value


def together(documents: Sequence[dict[str, Any]]) -> str:
    """All documents as JSON, numbers included, each list of plain numbers on a line."""
    return re.sub(r"\[\s+([^][{}\"]+?)\s+\]", lambda m: f"[{' '.join(m[1].split())}]", to_json(list(documents)))


def markdown(documents: Sequence[dict[str, Any]]) -> str:
    """The table claim / paper / measured / verdict."""
    rows = [
        [document["experiment"], *(claim[key] for key in ("statement", "paper", "measured", "verdict"))]
        for document in documents
        for claim in document["claims"]
    ]
    return _table(["experiment", "claim", "paper", "measured", "verdict"], rows)


def beside(small: Sequence[dict[str, Any]], large: Sequence[dict[str, Any]]) -> str:
    """The table claim / verdict on the small network / verdict and measurement on the paper's, in bold where they
    differ; a dash where the second does not speak of a claim."""
    there = {(document["experiment"], claim["statement"]): claim for document in large for claim in document["claims"]}
    rows = []
    for document in small:
        for claim in document["claims"]:
            other = there.get((document["experiment"], claim["statement"]), {"verdict": "-", "measured": "-"})
            bold = "**" if other["verdict"] != claim["verdict"] else ""
            second = f"{bold}{other['verdict']}{bold}"
            rows.append([document["experiment"], claim["statement"], claim["verdict"], second, other["measured"]])
    return _table(["experiment", "claim", "digits network", "the paper's network", "measured there"], rows)


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head, *lines = [f"| {' | '.join(cell.replace('|', BAR) for cell in row)} |\n" for row in (names, *rows)]
    return "".join([head, "|---" * len(names) + "|\n", *lines])
