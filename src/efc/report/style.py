"""How figures look and begin: colours, lines, markers, an empty figure, and writing one. Needs matplotlib to draw."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING
from warnings import catch_warnings, filterwarnings

from efc.errors import MissingError, visible
from efc.files import write_atomically

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
        raise MissingError("plots", "matplotlib", "plots") from None
    figure = Figure(figsize=inches, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, path: Path, dpi: int = 300, argument: str = "") -> None:
    """Write a figure, whole or not at all; text in an SVG or PDF stays text, and the same results give the same
    file."""
    import matplotlib as mpl

    form = path.suffix.removeprefix(".")
    stamp = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(form, {})
    drawn = io.BytesIO()
    with mpl.rc_context({"pdf.fonttype": 42, "svg.fonttype": "none", "svg.hashsalt": "efc"}), catch_warnings():
        # A name in letters that the font lacks is drawn with boxes; there is nothing anyone could do about it.
        filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(drawn, dpi=dpi, metadata=stamp, format=form)
    write_atomically(path, drawn.getvalue(), argument)


def plain(text: str, length: int | None = None) -> str:
    """A name for a figure: cut, without what matplotlib would read as mathematics, or what has no look of its own."""
    seen = visible(text, keep="")
    cut = seen if length is None or len(seen) <= length else seen[: length - 1] + "…"
    return cut.replace("$", r"\$")
