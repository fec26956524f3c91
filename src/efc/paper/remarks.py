"""Why a row under the paper's protocol is not what the paper prints: one sentence for each that does not agree."""

from __future__ import annotations

from collections.abc import Mapping

from efc.paper.lines import BOTH
from efc.paper.protocol_table import ProtocolCell, ProtocolTable

FOUND = "rate and strength are the best of the authors' sweep"
NEVER = "the authors' trainer never calls what computes SI's importances, so that theirs is plain training"
WIDER = "; their configuration has 1000-1000 units for this row"
DRAWS = "their initial weights are drawn before the seed is set, and draws differ much"
EQUATIONS = "these are the printed equations, with a softmax output and a head that learns, unlike the code"
END_TO_END = "the paper's figure is that of a ResNet18 trained end to end on these images"
PLAIN = "the rate is the best of the authors' sweep, which has Adam, and plain descent moves the weights far less at it"
BUFFER, UNITS = "their buffer holds 500 samples unless told otherwise", "their units are softplus"
Reason = tuple[str, str]
"""What may be said where ours lies above the paper, and where it lies below."""


def both(text: str) -> Reason:
    """A reason that says nothing of the direction."""
    return text, text


REASONS: dict[str, Reason] = {
    "JOINT": both("the authors' rate is not to be had; ours, 1e-3, was not searched for"),
    "SGD": (f"{PLAIN}, so that less is forgotten", f"{PLAIN}, so that less is learned"),
    "EWC": both(
        f"{FOUND}; {UNITS}, and each task's importances are scaled to the norm of those before and pull towards the "
        "newest weights, where ours keep their size and their own task's weights"
    ),
    "online EWC": both(f"{FOUND}, and the penalty is theirs; {DRAWS}"),
    "SI": (NEVER, f"{NEVER}, and its strength was never chosen for a penalty that acts"),
    "EFC": both(EQUATIONS),
    "EFC, as the authors' code": both(DRAWS),
    "DER++ (200)": (f"the rate is the authors', and {UNITS}", f"the rate is the authors'; {BUFFER}"),
}
"""By row."""
RATE = "the authors' rate for this column is not to be had, and this is MNIST's"
KNOWN: dict[tuple[str, str, str], Reason] = {
    **{("DER++ (200)", "cifar10-resnet18", s): (f"{RATE}; {UNITS}", f"{RATE}; {BUFFER}") for s in BOTH},
    **{
        ("JOINT", column, s): (
            f"{END_TO_END} alone, this is the network on frozen features of ImageNet",
            f"{END_TO_END}, this is the network on frozen features",
        )
        for column in ("cifar10-resnet18", "tiny-imagenet-resnet18")
        for s in BOTH
    },
    ("EFC", "mnist", "class"): both(EQUATIONS + WIDER),
    ("EFC, as the authors' code", "mnist", "class"): both(DRAWS + WIDER),
}
"""Where there is another reason for a cell than for its row."""


def reason(cell: ProtocolCell) -> str:
    """The most likely one that fits the direction."""
    above, below = KNOWN.get((cell.line, cell.column, cell.scenario), REASONS[cell.line])
    return above if cell.paper is not None and cell.accuracy.mean > cell.paper[0] else below


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
