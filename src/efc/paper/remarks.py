"""Why a row under the paper's protocol is not what the paper prints: one sentence for each that does not agree."""

from __future__ import annotations

from collections.abc import Mapping

from efc.paper.lines import BOTH
from efc.paper.protocol_table import ProtocolCell, ProtocolTable

END_TO_END = "the paper's figure is that of a ResNet18 trained end to end, this is the network on frozen features"
FOUND = "rate and strength are the best of the authors' sweep, two seeds"
REASONS = {
    "JOINT": "the authors' rate is not to be had; ours, 1e-3, was not searched for",
    "SGD": "the rate is the best of the authors' sweep, which has Adam; the text says SGD, and plain descent moves the "
    "weights far less at it",
    "EWC": f"{FOUND}; their Fisher squares the summed gradient of a batch, ours each sample's, and their units are "
    "softplus",
    "online EWC": f"{FOUND}; their Fisher squares the summed gradient of a batch, ours each sample's",
    "SI": f"{FOUND}; their importances may be negative and count the penalty's gradient, ours do neither",
    "EFC": "these are the printed equations, with a softmax output and a head that learns, unlike the code",
    "EFC, as the authors' code": "their initial weights are drawn before the seed is set, and draws differ much",
    "DER++ (200)": "the rate is the authors'; their buffer holds 500 samples unless told otherwise, and their units "
    "are softplus",
}
"""By row."""
UNKNOWN = (
    "the authors' rate for this column is not to be had, and this is MNIST's; " + REASONS["DER++ (200)"].split("; ")[1]
)
KNOWN = {("DER++ (200)", "cifar10-resnet18", scenario): UNKNOWN for scenario in BOTH}
"""Where there is another reason for a cell than for its row."""


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
