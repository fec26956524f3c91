"""A picture of results, and how pictures begin. matplotlib is imported when one is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from efc.display import method_label
from efc.errors import EFCError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(inches: tuple[float, float]) -> Figure:
    """An empty figure that needs no screen."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise EFCError("plots: matplotlib is missing; install it with: pip install matplotlib") from None
    figure = Figure(figsize=inches, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def accuracy_matrices(document: dict[str, Any], path: Path) -> None:
    """One heat map per row: accuracy on task j (columns) after learning task i (rows), mean over seeds."""
    rows = document["rows"]
    columns = min(3, len(rows))
    lines = -(-len(rows) // columns)
    figure = new_figure((3.1 * columns + 0.9, 3.4 * lines))
    axes = figure.subplots(lines, columns, squeeze=False)
    image = None
    for axis, row in zip(axes.flat, rows, strict=False):
        A = np.array(row["accuracy_matrix"], dtype=float).mean(0)
        image = axis.imshow(A, vmin=0, vmax=100, cmap="cividis")
        for (i, j), value in np.ndenumerate(A):
            if not np.isnan(value):
                axis.text(j, i, f"{value:.0f}", ha="center", va="center", fontsize=8, color="w" if value < 60 else "k")
        names = [" ".join(task) if len(" ".join(task)) <= 5 else str(k + 1) for k, task in enumerate(row["tasks"])]
        axis.set_xticks(range(len(names)), names, fontsize=8)
        axis.set_yticks(range(len(names)), names, fontsize=8)
        accuracy = row["accuracy"]
        axis.set_title(
            f"{method_label(row)}, {row['head'].replace('_', '-')} head, {row['scenario']}-IL\n"
            f"{accuracy['mean']:.1f} ± {accuracy['std']:.1f} %",
            fontsize=9,
        )
        axis.set_xlabel("tested on", fontsize=8)
        axis.set_ylabel("after learning", fontsize=8)
    for axis in axes.flat[len(rows) :]:
        axis.set_axis_off()
    if image is not None:
        figure.colorbar(image, ax=axes, label="accuracy, %", shrink=min(0.7, 1.4 / lines), aspect=25)
    figure.savefig(path, dpi=150)
