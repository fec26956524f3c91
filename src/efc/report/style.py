"""How figures look and begin: colours, lines, markers, an empty figure, and writing one. Needs matplotlib to draw."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from efc.errors import EFCError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C8C8C")
"""Okabe and Ito's: told apart by people with any colour vision."""
LINES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
"""One fewer than the colours: a method beyond the eighth shares its colour with another, but not its marker."""


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


def save(figure: Figure, path: Path) -> None:
    """Write a figure; text in an SVG or PDF stays text, and the same results give the same file."""
    import matplotlib as mpl

    stamp = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}.get(path.suffix, {})
    try:
        with mpl.rc_context({"pdf.fonttype": 42, "svg.fonttype": "none", "svg.hashsalt": "efc"}):
            figure.savefig(path, dpi=300, metadata=stamp)
    except OSError as problem:
        raise EFCError(f"--out: cannot write {path}: {problem.strerror}") from None
