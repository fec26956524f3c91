"""How a stream without boundaries was answered on the way, and what came when. Needs matplotlib."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from efc.errors import EFCError
from efc.report.labels import LabelledRow, method_label
from efc.report.streamed import Reported, streamed
from efc.report.style import COLOURS, LINES, new_figure, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FONT = 7
MOST_CLASSES = 20
"""Classes of which the picture of what came when names each."""


def prequential(rows: Sequence[LabelledRow], width: float) -> Figure:
    """For every data set and stream: accuracy on samples before they were learned, over the classes that came when."""
    groups: dict[str, list[LabelledRow]] = {}
    for row in rows:
        if streamed(row):
            groups.setdefault(f"{row.dataset}, {row.config.get('stream', '')}", []).append(row)
    if not groups:
        raise EFCError("--kind: 'prequential' shows streams without boundaries (efc run --stream ...); none is here")
    across = min(len(groups), 1 if width < 5 else 2)
    down = math.ceil(len(groups) / across)
    most = max(map(len, groups.values()))
    figure = new_figure((width, down * (2.6 + 0.13 * math.ceil(most / 2))))
    ratios = [2.2, 1.0] * down
    axes = figure.subplots(2 * down, across, squeeze=False, gridspec_kw={"height_ratios": ratios})
    for axis in axes.flat:
        axis.set_axis_off()
    for k, (title, members) in enumerate(groups.items()):
        above, below = axes[2 * (k // across) : 2 * (k // across) + 2, k % across]
        above.set_title(plain(title, 60), fontsize=FONT)
        _curves(above, members)
        _mix(below, streamed(members[0])[0])
    return figure


def _curves(axis: Axes, rows: Sequence[LabelledRow]) -> None:
    """Mean over seeds, and a band of one deviation."""
    axis.set_axis_on()
    for m, row in enumerate(rows):
        seeds = streamed(row)
        curves = np.array([one["curve"] for one in seeds], dtype=float)
        at, mean = np.array(seeds[0]["at"], dtype=float), curves.mean(0)
        colour = COLOURS[m % len(COLOURS)]
        label = plain(f"{method_label(row)}, {row.head.replace('_', '-')}", 34)
        axis.plot(at, mean, color=colour, linestyle=LINES[m // len(COLOURS) % len(LINES)], linewidth=0.9, label=label)
        if len(curves) > 1:
            std = curves.std(0, ddof=1)
            axis.fill_between(at, mean - std, mean + std, color=colour, alpha=0.15, linewidth=0)
    axis.set_ylim(0, 101)
    axis.set_xlim(0, max(streamed(row)[0]["at"][-1] for row in rows))  # as the picture below
    axis.set_ylabel("right before learned, %", fontsize=FONT)
    axis.tick_params(labelsize=FONT - 1)
    axis.grid(linewidth=0.3)
    axis.legend(fontsize=FONT - 1, frameon=False, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.1))


def _mix(axis: Axes, seed: Reported) -> None:
    """The share of each class in every stretch of the first seed's stream."""
    axis.set_axis_on()
    mix = np.array(seed["mix"], dtype=float)
    share = (mix / mix.sum(1, keepdims=True).clip(1)).T
    axis.imshow(share, aspect="auto", cmap="Greys", interpolation="nearest", vmin=0,
                extent=(0, float(seed["at"][-1]), len(share) - 0.5, -0.5))  # fmt: skip
    names = [plain(str(name), 8) for name in seed["classes"]]
    if len(names) <= MOST_CLASSES:
        axis.set_yticks(range(len(names)), names)
    axis.set_ylabel("class", fontsize=FONT)
    axis.set_xlabel("samples", fontsize=FONT)
    axis.tick_params(labelsize=FONT - 2)
