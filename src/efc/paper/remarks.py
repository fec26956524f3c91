"""Why a row under the paper's protocol is not what the paper prints: one sentence for each that does not agree."""

from __future__ import annotations

from collections.abc import Mapping

from efc.paper.protocol import ProtocolCell, ProtocolTable

END_TO_END = "the paper's figure is that of a ResNet18 trained end to end, this is the network on frozen features"
UNKNOWN = "the authors' rate and strength for this column are not to be had, and ours were not searched for"
REASONS = {
    "JOINT": "the authors' rate is not to be had; ours, 1e-3, was not searched for",
    "SGD": "the rate is what the authors' template names for `bp`, which has Adam there; the text says SGD",
    "EWC": UNKNOWN,
    "online EWC": UNKNOWN,
    "SI": "the importances of the authors' SI are never computed, so theirs is plain training; and " + UNKNOWN,
    "EFC": "these are the printed equations, with a softmax output and a head that learns, unlike the code",
    "EFC, as the authors' code": "their initial weights are drawn before the seed is set, and draws differ much",
    "DER++ (200)": "the authors' buffer holds 500 samples unless told otherwise, and their units are softplus; "
    + UNKNOWN,
}
"""By row."""
KNOWN = {
    (
        "EWC",
        "mnist",
        "class",
    ): "rate and strength are the authors'; their Fisher squares the summed gradient of a batch, "
    "ours each sample's, and their units are softplus",
    ("DER++ (200)", "tiny-imagenet-resnet18", "class"): "the rate is the authors'; their buffer holds 500 samples",
    ("DER++ (200)", "tiny-imagenet-resnet18", "task"): "the rate is the authors'; their buffer holds 500 samples",
}
"""Where more is known of a cell than of its row."""


def reason(cell: ProtocolCell) -> str:
    """The most likely one."""
    if cell.line == "JOINT" and cell.column != "mnist":
        return END_TO_END
    return KNOWN.get((cell.line, cell.column, cell.scenario), REASONS[cell.line])


def remarks(found: ProtocolTable, column: str, scenario: str) -> list[str]:
    """One sentence for each row of a table that does not agree with the paper in the widths of its text."""
    told = []
    for line in found.names(lambda cell: cell.line):
        cell = found.find(line, column, scenario, "paper")
        if cell is not None and cell.paper is not None and not cell.agrees:
            apart = cell.accuracy.mean - cell.paper[0]
            way = "above" if apart > 0 else "below"
            told.append(f"**{line}** is {abs(apart):.1f} points {way} the paper: {reason(cell)}.")
    return told


def page(found: ProtocolTable, titles: Mapping[str, str] | None = None) -> str:
    """All tables for a page, each with its sentences; ``titles`` are other names of columns."""
    parts = []
    for column, scenario in found.places:
        title = (titles or {}).get(column, column)
        heading = f"## {title}, {scenario.capitalize()}-IL: the paper's protocol and ours"
        told = "".join(f"- {remark}\n" for remark in remarks(found, column, scenario))
        parts.append(f"{heading}\n\n{found.markdown(column, scenario)}" + (f"\n{told}" if told else ""))
    return "\n".join(parts)
