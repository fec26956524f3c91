"""Writes the tables of docs/tables.md, docs/estimator.md and docs/paper-protocol.md, the figures in docs/departures.md
and the head of docs/results.md, table and figure, from docs/results/*.json.

    python tools/results_page.py

Where a row of the head table says "best", the line was chosen by its accuracy on validation data, not by the one shown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from efc import presets
from efc.paper.lines import COLUMNS, DEFAULT, UNTUNED, USUAL
from efc.paper.protocol_table import ProtocolTable
from efc.paper.remarks import page as protocol_page
from efc.paper.table import Entry, PaperTable, entries

DOCS = Path(__file__).parents[1] / "docs"
TITLES = {
    "mnist": "Split-MNIST", "cifar10-resnet18": "Split-CIFAR-10, ResNet18 features",
    "cifar10-efficientnet-lite0": "Split-CIFAR-10, EfficientNet-Lite0 features",
    "tiny-imagenet-resnet18": "Split-Tiny-ImageNet, ResNet18 features",
    "mnist-wide": "Split-MNIST, wide", "cifar10-resnet18-wide": "Split-CIFAR-10, ResNet18 features, wide",
    "tiny-imagenet-resnet18-wide": "Split-Tiny-ImageNet, ResNet18 features, wide",
}  # fmt: skip
SUITE = {"efc": "`EFCClassifier()`", "ridge": "ridge, all data at once", "ridge_cv": "ridge, cross-validated"}
DIAGONAL = ("EWC", "online EWC", "SI", "MAS")
MARKS = ("<!-- written by tools/results_page.py -->", "<!-- end -->")

Chooser = Callable[[str], bool]


def _of(*starts: str, heads: Sequence[str] = ("",)) -> Chooser:
    """Lines of these methods with these heads."""
    return lambda line: any(line.startswith(f"{s}, ") for s in starts) and any(f"{h} head" in line for h in heads)


def _efc(line: str) -> bool:
    """EFC with remembered activity, whole and tuned."""
    return _of("EFC")(line) and not any(part in line for part in ("default", "untuned", "gamma off", "pull off"))


HEADLINE: dict[str, Chooser] = {
    "**EFC, default options**": lambda line: line == DEFAULT.label,
    "first task, then frozen, default options": lambda line: line.startswith("first task, then frozen, default"),
    "**EFC**, untuned, least-squares head": lambda line: line == UNTUNED.label,
    "**EFC**, tuned, least-squares head": lambda line: line == "EFC, least-squares head",
    "**EFC**, tuned, zero head": lambda line: line == "EFC, zero head",
    "**EFC**, tuned, best": _efc,
    "back-propagation with the same memory (`activity`), best": _of("activity"),
    "the same and EWC (`activity_ewc`), best": _of("activity + EWC"),
    "EFC as in the paper (`efc-paper`), least-squares head": lambda line: (
        line == "EFC as in the paper, least-squares head"
    ),
    "best diagonal penalty, head without moments": _of(*DIAGONAL, heads=("zero", "least-squares")),
    "best diagonal penalty, any head": _of(*DIAGONAL),
    "DER++, 200 stored samples, best": _of("DER++ (200)"),
    "first task, then frozen, best": _of("first task, then frozen"),
    "ridge on the features": lambda line: line == "ridge on the features",
    "JOINT, keeps all data": lambda line: line.startswith("JOINT"),
}


def committed(name: str) -> PaperTable:
    return PaperTable.from_json(json.loads((DOCS / "results" / f"{name}.json").read_text(encoding="utf-8")))


def validation(entry: Entry) -> float:
    """The accuracy by which the entry's options were chosen."""
    document = presets._load(entry.column)
    of_method = document[entry.scenario][entry.line.preset or entry.line.method]
    head = entry.line.preset_head or entry.line.head
    while head not in of_method:
        head = presets.FALLBACK[head]
    return float(of_method[head]["validation_accuracy"])


def chosen(column: str, chooser: Chooser, scenario: str = "class") -> str:
    """The line of the best validation accuracy among those of a row."""
    every = [e for e in entries([column], [scenario])[0] if chooser(e.line.label)]
    return max(every, key=lambda e: validation(e) if e.line.tuned else 0.0).line.label


def headline(found: PaperTable) -> str:
    """The head table, Class-IL."""
    cells = {(cell.column, cell.line): cell for cell in found.cells if cell.scenario == "class"}
    lines = [
        f"| Class-IL % | {' | '.join(TITLES[c].replace(' features', '') for c in USUAL)} |",
        "|---" * (1 + len(USUAL)) + "|",
    ]
    for label, chooser in HEADLINE.items():
        shown = []
        for column in USUAL:
            line = chosen(column, chooser)
            cell = cells[column, line]
            told = f" ({short(line)})" if "best" in label else ""
            shown.append(f"{cell.accuracy.mean:.1f} ± {cell.accuracy.std:.1f}{told}")
        lines.append(f"| {label} | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


def short(line: str) -> str:
    """What tells a line from the others of its row."""
    *names, head = (part.strip() for part in line.removesuffix(" head").split(","))
    told = [name for name in names if name in (*DIAGONAL, "natural step", "head apart")]
    return ", ".join([*told, head])


def tables(found: PaperTable, wide: PaperTable) -> str:
    """docs/tables.md below its first lines."""
    parts = [f"## {TITLES[column]}\n\n{found.markdown(column)}" for column in USUAL]
    parts += [f"## {TITLES[name]}\n\n{wide.markdown(name)}" for name, column in COLUMNS.items() if column.wide]
    return "\n".join(parts)


def suite(document: Mapping[str, Any]) -> str:
    """What `benchmarks/suite.py --json` wrote: a line for every set, and the differences that the goals are about."""
    main, names = document["plan"]["main"], document["plan"]["estimators"]
    titles = " | ".join(SUITE.get(name, f"`{name}`") for name in names)
    lines = [
        f"| set: classes, samples x features | {titles} | calibration error | at best |",
        "|---" * (len(names) + 3) + "|",
    ]
    means: dict[str, list[float]] = {name: [] for name in (*names, "calibration", "calibration_at_best")}
    for result in document["results"]:
        scores = {score["estimator"]: score for score in result["scores"] if score["setting"] == main}
        about, shown = result["about"], []
        for name in names:
            found = scores[name]["accuracies"]
            means[name].append(fmean(found))
            shown.append(f"{fmean(found):.1f}" + (f" ± {stdev(found):.1f}" if len(found) > 1 else ""))
        for kind in ("calibration", "calibration_at_best"):
            means[kind].append(fmean(scores["efc"][kind]))
        told = f"{result['name']}: {about['classes']}, {about['samples']} x {about['features']}"
        shown += [f"{means[kind][-1]:.3f}" for kind in ("calibration", "calibration_at_best")]
        lines.append(f"| {told} | {' | '.join(shown)} |")
    last = " | ".join(f"**{fmean(means[name]):.1f}**" for name in names)
    lines += [
        f"| mean | {last} | {fmean(means['calibration']):.3f} | {fmean(means['calibration_at_best']):.3f} |",
        "",
        "| difference, points | mean | worst | best |",
    ]
    lines.append("|---|---|---|---|")
    for title, line in document["summary"].items():
        if isinstance(line, dict) and "mean" in line:
            ends = (f"{points:+.1f} ({name})" for name, points in (line["worst"], line["best"]))
            lines.append(f"| {title} | {line['mean']:+.1f} | {' | '.join(ends)} |")
    return "\n".join(lines) + "\n"


def between(text: str, new: str) -> str:
    """``text`` with what stands between the marks replaced."""
    start, end = text.index(MARKS[0]) + len(MARKS[0]), text.index(MARKS[1])
    return f"{text[:start]}\n\n{new}\n{text[end:]}"


def draw(found: PaperTable, file: Path) -> None:
    """The head table as a picture: one panel a column of the table, one dot a row."""
    from matplotlib import pyplot as plt

    cells = {(cell.column, cell.line): cell for cell in found.cells if cell.scenario == "class"}
    names = list(HEADLINE)[::-1]
    figure, panels = plt.subplots(1, len(USUAL), figsize=(13, 4.6), sharey=True, layout="constrained")
    for panel, column in zip(panels, USUAL, strict=True):
        for at, label in enumerate(names):
            cell = cells[column, chosen(column, HEADLINE[label])]
            colour = "#3f51b5" if label.startswith("**") else "#777777"
            panel.errorbar(cell.accuracy.mean, at, xerr=cell.accuracy.std, fmt="o", color=colour, ms=6)
            panel.text(cell.accuracy.mean, at + 0.22, f"{cell.accuracy.mean:.1f}", ha="center", fontsize=8)
        panel.set_title(TITLES[column].replace(", ", ",\n"), fontsize=9)
        panel.set_yticks(range(len(names)), [name.replace("*", "").replace("`", "") for name in names], fontsize=8)
        panel.set_ylim(-0.6, len(names) - 0.2)
        panel.grid(axis="x", alpha=0.3)
        panel.set_xlabel("Class-IL accuracy, %")
        panel.margins(x=0.12)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
    figure.savefig(file, dpi=110, metadata={"Software": None})
    plt.close(figure)


def pages() -> dict[str, str]:
    """What is written into every page."""
    found, wide = committed("paper"), committed("paper-wide")
    untuned = json.loads((DOCS / "results" / "suite.json").read_text(encoding="utf-8"))
    written = {"results": headline(found), "tables": tables(found, wide), "estimator": suite(untuned)}
    if (DOCS / "results" / "paper-protocol.json").exists():
        written["paper-protocol"] = protocol_page(ProtocolTable.from_json(document("paper-protocol")), TITLES)
    return written


def document(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DOCS / "results" / f"{name}.json").read_text(encoding="utf-8"))
    return found


def departures(text: str, found: Mapping[str, Any]) -> str:
    """docs/departures.md with the last cell of every table row filled that names measured changes in the one before."""
    rows = {row["name"]: row for row in found["rows"]}
    if "base" in rows:
        rows["sample_accuracy"] = counted_over_samples(rows["base"])
    lines = []
    for line in text.split("\n"):
        cells = line.split(" | ")
        names = [name.strip().strip("`") for name in cells[-2].split("; ")] if len(cells) > 2 else []
        if names and all(name in rows for name in names):
            line = " | ".join([*cells[:-1], "; ".join(difference(rows[name]) for name in names) + " |"])
        lines.append(line)
    return "\n".join(lines)


def counted_over_samples(base: Mapping[str, Any]) -> dict[str, Any]:
    """The base's own answers, counted over samples in place of tasks, as a row."""
    pairs = zip(base["sample_accuracy"]["per_seed"], base["accuracy"]["per_seed"], strict=True)
    apart = [samples - tasks for samples, tasks in pairs]
    return {"name": "sample_accuracy", "base": "base", "difference": {"mean": fmean(apart), "std": stdev(apart)}}


def difference(row: Mapping[str, Any]) -> str:
    """Points, and the accuracy itself where there is nothing to compare with."""
    if row["name"] == row["base"]:
        return f"{row['accuracy']['mean']:.1f} ± {row['accuracy']['std']:.1f}"
    return f"{row['difference']['mean']:+.1f} ± {row['difference']['std']:.1f}"


def main() -> None:
    for name, new in pages().items():
        page = DOCS / f"{name}.md"
        page.write_text(between(page.read_text(encoding="utf-8"), new), encoding="utf-8")
    if (DOCS / "results" / "departures.json").exists():
        page = DOCS / "departures.md"
        page.write_text(departures(page.read_text(encoding="utf-8"), document("departures")), encoding="utf-8")
    draw(committed("paper"), DOCS / "results" / "headline.png")


if __name__ == "__main__":
    main()
