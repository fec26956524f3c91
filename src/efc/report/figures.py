"""Figures for a paper, `efc plot`: one or two columns wide, legible in grey and to all eyes. Needs matplotlib."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from efc.errors import EFCError, choose
from efc.metrics import Array
from efc.report.course import Course, Curves, course
from efc.report.diagnosed import Diagnosed, diagnosed, mean
from efc.report.labels import LabelledRow, labelled, method_label
from efc.report.prequential import prequential
from efc.report.streamed import matrix_rows, setting
from efc.report.style import COLOURS, LINES, MARKERS, new_figure, plain, save
from efc.runs.results import Results

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

KINDS = ("matrix", "curves", "confusion", "effort", "diagnosis", "prequential")
FORMATS = ("pdf", "svg", "png")
WIDTHS = {"column": 3.4, "page": 7.0}
"""Inches: one column of a paper with two, and both."""
PANEL = 1.62
"""Inches a heat map takes at least."""
MOST_ROWS = 60
MOST_COURSES = 9
"""Rows of which the course of control can be drawn: each takes several panels."""
PAGE = 9.2
"""Inches of height that a page has."""
MOST_DIAGNOSED = 20
FONT = 7


def draw(results: Results, kind: str, width: str | None = None) -> Figure:
    """A figure of results; without a width as narrow as fits a page."""
    choose("--kind", kind, KINDS)
    if width is None:
        figure = draw(results, kind, "column")
        return figure if figure.get_figheight() <= PAGE else draw(results, kind, "page")
    choose("--width", width, WIDTHS)
    rows = labelled(results.rows)
    if len(rows) > MOST_ROWS:
        raise EFCError(f"--kind: {len(rows)} rows are too many for one figure (at most {MOST_ROWS}); use --where")
    inches = WIDTHS[width]
    if kind == "curves":
        return _curves(rows, inches)
    if kind == "effort":
        return _efforts(rows, inches)
    if kind == "prequential":
        return prequential(rows, inches)
    if kind == "diagnosis":
        return _diagnoses(rows, inches)
    if kind == "matrix":
        return _heat_maps(rows, [_mean_matrix(row) for row in rows], [_task_names(row) for row in rows], inches,
                          ("tested on task", matrix_rows(rows)), "accuracy, %")  # fmt: skip
    shares = [_confusion(row) for row in rows]
    return _heat_maps(rows, shares, [_class_names(row) for row in rows], inches, ("answered", "shown"), "answers, %")


def accuracy_matrices(results: Results, path: Path) -> None:
    """One heat map per row: accuracy on task j (columns) after learning task i (rows), mean over seeds."""
    rows = results.rows
    columns = min(3, len(rows))
    lines = -(-len(rows) // columns)
    figure = new_figure((3.1 * columns + 0.9, 3.4 * lines))
    axes = figure.subplots(lines, columns, squeeze=False)
    image = None
    for axis, row in zip(axes.flat, rows, strict=False):
        A = np.array(row.accuracy_matrix, dtype=float).mean(0)
        image = axis.imshow(A, vmin=0, vmax=100, cmap="cividis")
        for (i, j), value in np.ndenumerate(A):
            if not np.isnan(value):
                axis.text(j, i, f"{value:.0f}", ha="center", va="center", fontsize=8, color="w" if value < 60 else "k")
        told = [" ".join(task) for task in row.tasks]
        names = [plain(name) if len(name) <= 5 else str(k + 1) for k, name in enumerate(told)]
        axis.set_xticks(range(len(names)), names, fontsize=8)
        axis.set_yticks(range(len(names)), names, fontsize=8)
        accuracy = row.accuracy
        axis.set_title(
            f"{plain(method_label(row), 60)}, {row.head.replace('_', '-')} head, {setting(row)}\n"
            f"{accuracy.mean:.1f} ± {accuracy.std:.1f} %",
            fontsize=9,
        )
        axis.set_xlabel("tested on", fontsize=8)
        axis.set_ylabel(matrix_rows([row]), fontsize=8)
    for axis in axes.flat[len(rows) :]:
        axis.set_axis_off()
    if image is not None:
        figure.colorbar(image, ax=axes, label="accuracy, %", shrink=min(0.7, 1.4 / lines), aspect=25)
    save(figure, path, dpi=150)


def _curves(rows: Sequence[LabelledRow], width: float) -> Figure:
    """Mean accuracy over the tasks seen, after each task: one panel per data set and scenario, one legend for all."""
    groups: dict[str, list[LabelledRow]] = {}
    for row in rows:
        groups.setdefault(_group(row), []).append(row)
    methods = list(dict.fromkeys(f"{method_label(row)} {row.differs}" for row in rows))
    heads = list(dict.fromkeys(row.head for row in rows))
    across = min(len(groups), 1 if width < 5 else 3)
    down = math.ceil(len(groups) / across)
    names = list(dict.fromkeys(_label(row) for row in rows))
    legend_columns = max(1, int(width / (0.38 + 0.046 * max(map(len, names)))))
    legend = 0.14 * math.ceil(len(names) / legend_columns) + 0.1
    figure = new_figure((width, 2.1 * down + legend))
    axes = figure.subplots(down, across, squeeze=False)
    lines: dict[str, Line2D] = {}
    for axis, (title, members) in zip(axes.flat, groups.items(), strict=False):
        for place, row in enumerate(members):
            aside = min(0.24, 0.05 * len(members)) * (place / max(1, len(members) - 1) - 0.5)  # curves may coincide
            A = np.array(row.accuracy_matrix, dtype=float)
            each = np.nanmean(A, axis=2)
            m, h = methods.index(f"{method_label(row)} {row.differs}"), heads.index(row.head)
            x, mean = np.arange(1, each.shape[1] + 1) + aside, each.mean(0)
            style = {"color": COLOURS[m % len(COLOURS)], "linestyle": LINES[h % len(LINES)]}
            (line,) = axis.plot(x, mean, marker=MARKERS[m % len(MARKERS)], markersize=3, linewidth=1, **style)
            if len(each) > 1:
                std = each.std(0, ddof=1)
                axis.fill_between(x, mean - std, mean + std, color=style["color"], alpha=0.15, linewidth=0)
            lines.setdefault(_label(row), line)
        axis.set_title(title, fontsize=FONT)
        axis.set_ylim(top=101)
        axis.xaxis.get_major_locator().set_params(integer=True)
        _style(axis, "tasks learned", "accuracy, %")
        axis.grid(linewidth=0.3)
    _hide_rest(axes, len(groups))
    figure.legend(
        lines.values(), lines.keys(), loc="outside lower center", ncols=legend_columns, fontsize=FONT - 1, frameon=False
    )
    return figure


def _heat_maps(
    rows: Sequence[LabelledRow],
    values: Sequence[Array],
    names: Sequence[list[str]],
    width: float,
    titles: tuple[str, str],
    bar: str,
) -> Figure:
    """One heat map per row, and one colour bar for all; numbers in the cells where they can be read."""
    across = min(len(rows), int(width / PANEL))
    down = math.ceil(len(rows) / across)
    while width > 5 and down * ((width - 0.45) / max(across, 2) + 0.32) > PAGE:  # smaller, but on one page
        across += 1
        down = math.ceil(len(rows) / across)
    panel = (width - 0.45) / max(across, 2)
    figure = new_figure((width, down * (panel + 0.32)))
    axes = figure.subplots(down, across, squeeze=False)
    image = None
    for axis, row, z, labels in zip(axes.flat, rows, values, names, strict=False):
        image = axis.imshow(z, vmin=0, vmax=100, cmap="cividis")
        n = len(z)
        if n <= 10:
            size = min(6.5, 36 / n)
            for (i, j), value in np.ndenumerate(z):
                if not np.isnan(value):
                    colour = "w" if value < 55 else "k"
                    axis.text(j, i, f"{value:.0f}", ha="center", va="center", fontsize=size, color=colour)
        kept = range(0, n, math.ceil(n / 10))
        texts = [plain(labels[k], 8) for k in kept]
        slanted = sum(map(len, texts)) * 0.06 > panel * 0.7
        axis.set_xticks(kept, texts, rotation=90 if slanted else 0)
        axis.set_yticks(kept, texts)
        accuracy = row.accuracy
        spread = f" ± {accuracy.std:.1f}" if len(row.seeds) > 1 else ""
        title = [_label(row, 28), f"{_group(row, 20)}: {accuracy.mean:.1f}{spread}"]
        axis.set_title("\n".join(title), fontsize=FONT - 1)
        _style(axis, *titles)
    _hide_rest(axes, len(rows))
    if image is not None:
        colours = figure.colorbar(image, ax=axes, aspect=25, shrink=min(1.0, 2 / down), pad=0.02)
        colours.set_label(bar, fontsize=FONT)
        colours.ax.tick_params(labelsize=FONT - 1, width=0.5, length=2)
        colours.outline.set_linewidth(0.5)
    return figure


def _efforts(rows: Sequence[LabelledRow], width: float) -> Figure:
    """How control went, for every row with an equilibrium: psi and gamma in a panel per layer, unsettled below them."""
    found = [(row, path) for row in rows if (path := course(row)) is not None]
    if not found:
        raise EFCError(
            "--kind: 'effort' shows how EFC's control went, and no run here has an equilibrium or its record"
        )
    if len(found) > MOST_COURSES:
        raise EFCError(f"--kind: effort of {len(found)} rows is too much (at most {MOST_COURSES}); use --where")
    across = min(len(found), 1 if width < 5 else 3)
    down = math.ceil(len(found) / across)
    panels = 1 + max(len(path.layers) for _, path in found)
    figure = new_figure((width, down * (0.72 * panels + 0.55) + 0.25))
    axes = figure.subplots(down * panels, across, squeeze=False)
    for axis in axes.flat:
        axis.set_axis_off()
    lines: dict[str, Line2D] = {}
    for k, (row, path) in enumerate(found):
        top = k // across * panels
        own = axes[top : top + len(path.layers) + 1, k % across]
        lines |= _effort(list(own), row, path)
        title = f"{_label(row, 28 if across > 1 else 40)}\n{_group(row, 40)}"
        own[0].set_title(title, fontsize=FONT - 1, pad=10)
    figure.align_ylabels()
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=2, fontsize=FONT - 1, frameon=False)
    return figure


def _effort(axes: Sequence[Axes], row: LabelledRow, path: Course) -> dict[str, Line2D]:
    """One row's panels; returns a line of each signal for the legend. The layers have one scale, to be compared."""
    bottom, top = _signal_limits(path)
    lines = {}
    for i, (axis, name) in enumerate(zip(axes, [*path.layers, "unsettled, %"], strict=True)):
        axis.set_axis_on()
        if i < len(path.layers):
            _logarithmic(axis, bottom, top)
            lines[r"$\psi$, asked by learning"] = _course(axis, path, path.psi, i, 0)
            lines[r"$\gamma$, answered by preservation"] = _course(axis, path, path.gamma, i, 1)
        else:
            _course(axis, path, path.unsettled, 0, 2)
            axis.set_ylim(0, None if path.unsettled.mean.max() > 0 else 1)
        for border in path.borders:
            axis.axvline(border, color="0.4", linewidth=0.6, linestyle=":")
        axis.set_xlim(0.5, len(path.at) + 0.5)
        axis.locator_params(axis="x", integer=True)
        last = i == len(path.layers)
        _style(axis, "epoch" if last else "", name)
        axis.tick_params(labelbottom=last, which="both")
        axis.tick_params(which="minor", width=0.3, length=1, labelleft=False)
        axis.grid(linewidth=0.3, axis="y")
    edges = [0.5, *path.borders, len(path.at) + 0.5]
    names = [plain(name, 8) for name in _task_names(row)]
    every = math.ceil(sum(map(len, names)) / 40)
    for t in range(0, len(names), every):
        place = (edges[t] + edges[t + 1]) / 2
        axes[0].text(place, 1.03, names[t], transform=axes[0].get_xaxis_transform(), ha="center", fontsize=FONT - 2)
    return lines


def _diagnoses(rows: Sequence[LabelledRow], width: float) -> Figure:
    """For every row with features: own accuracy, what the head loses of the oracle's, and the drift by task."""
    found = [(row, seen) for row in rows if (seen := diagnosed(row)) is not None]
    if not found:
        raise EFCError("--kind: 'diagnosis' shows what efc run --diagnose finds, and no run here was diagnosed")
    if len(found) > MOST_DIAGNOSED:
        raise EFCError(f"--kind: diagnosis of {len(found)} rows is too much (at most {MOST_DIAGNOSED}); use --where")
    beside = width > 5
    bars, legend = 0.3 * len(found) + 0.55, 0.3
    figure = new_figure((width, (max(bars, 1.9) if beside else bars + 1.6) + legend))
    shape = {"width_ratios": [1.5, 1]} if beside else {"height_ratios": [bars, 1.6]}
    above, below = figure.subplots(*((1, 2) if beside else (2, 1)), gridspec_kw=shape)
    lines = [*_lost(above, found), *_drifts(below, found)]
    figure.legend(handles=lines, loc="outside lower center", ncols=6 if beside else 3, fontsize=FONT - 1, frameon=False)
    return figure


def _lost(axis: Axes, found: Sequence[tuple[LabelledRow, Diagnosed]]) -> list[Artist | BarContainer]:
    """A bar per row: its own accuracy, and behind it what the oracle has more, or less, with the points in numbers."""
    several = len({_group(row) for row, _ in found}) > 1
    least = min(float(min(seen.accuracy.mean(), seen.oracle.mean())) for _, seen in found)
    floor = 10 * math.floor((least - 5) / 10) if least > 55 else 0
    handles: list[Artist | BarContainer] = []
    for k, (_, seen) in enumerate(found):
        own, best = float(seen.accuracy.mean()), float(seen.oracle.mean())
        mine = axis.barh(k, own - floor, 0.62, left=floor, color=COLOURS[k % len(COLOURS)])
        gap = axis.barh(k, best - own, 0.62, left=own, color="none", edgecolor="0.25", hatch="/////", linewidth=0.6)
        (mark,) = axis.plot([best, best], [k - 0.4, k + 0.4], color="k", linewidth=1.4)
        said = f"lost {best - own:.1f}".replace("-", "\N{MINUS SIGN}")
        axis.text(max(own, best) + 0.012 * (100 - floor), k, said, va="center", fontsize=FONT - 1)
        axis.text(floor + 0.02 * (100 - floor), k, f"{own:.1f}", va="center", fontsize=FONT - 1, color="w")
        handles = handles or [mine, mark, gap]
    for handle, name in zip(handles, ("own accuracy", "oracle", "lost in the head"), strict=True):
        handle.set_label(name)
    labels = [_label(row, 24) + (f"\n{_group(row, 24)}" if several else "") for row, _ in found]
    axis.set_yticks(range(len(found)), labels)
    axis.set_ylim(len(found) - 0.4, -0.6)
    axis.set_xlim(floor, 100 + 0.22 * (100 - floor))
    _style(axis, "accuracy, %", "")
    return handles


def _drifts(axis: Axes, found: Sequence[tuple[LabelledRow, Diagnosed]]) -> list[Artist | BarContainer]:
    """By task, how far its features have moved since, and how much of this no linear map explains."""
    handles: list[Artist | BarContainer] = []
    for k, (_, seen) in enumerate(found):
        x, colour = np.arange(1, seen.drift.shape[1] + 1), COLOURS[k % len(COLOURS)]
        marker = MARKERS[k % len(MARKERS)]
        (whole,) = axis.plot(x, mean(seen.drift), color=colour, marker=marker, markersize=3, linewidth=1)
        (left,) = axis.plot(x, seen.unexplained, ":", color=colour, marker=marker, markersize=3, linewidth=1)
        left.set_fillstyle("none")
        handles = handles or [whole, left]
    for handle, name in zip(handles, ("drift of the features", "not linear"), strict=True):
        handle.set_label(name)
    axis.set_ylim(bottom=0)
    axis.locator_params(axis="x", integer=True)
    _style(axis, "task", "drift, %")
    axis.grid(linewidth=0.3)
    return handles


def _logarithmic(axis: Axes, bottom: float, top: float) -> None:
    """Every power of ten is named; where there are too few of them, twos and fives as well."""
    from matplotlib.ticker import LogLocator

    axis.set_yscale("log")
    axis.set_ylim(bottom, top)
    wide = top / bottom > 30
    axis.yaxis.set_major_locator(LogLocator(subs=(1,) if wide else (1, 2, 5), numticks=8))
    if not wide:
        axis.yaxis.set_major_formatter("{x:g}")


def _course(axis: Axes, path: Course, curves: Curves, layer: int, style: int) -> Line2D:
    """Mean and band; on a logarithmic axis what is not above zero has no place."""
    mean, std = curves.mean[layer], curves.std[layer]
    if axis.get_yscale() == "log":
        mean = np.where(mean > 0, mean, np.nan)
    marker = MARKERS[style] if len(mean) <= 40 else ""
    look, colour = LINES[style % 2], COLOURS[style]
    (line,) = axis.plot(path.at, mean, color=colour, linestyle=look, marker=marker, linewidth=1, markersize=2)
    low = np.maximum(mean - std, axis.get_ylim()[0] if axis.get_yscale() == "log" else 0.0)
    axis.fill_between(path.at, low, mean + std, color=colour, alpha=0.15, linewidth=0)
    return line


def _signal_limits(path: Course) -> tuple[float, float]:
    """Down to the smallest mean, but no further than five decades."""
    means = np.concatenate([path.psi.mean, path.gamma.mean])
    over = means + np.concatenate([path.psi.std, path.gamma.std])
    positive = means[means > 0]
    if not len(positive):
        return 1e-3, 1.0
    top = 1.4 * float(np.nanmax(over))
    return max(float(positive.min()) / 1.3, top / 1e5), top


def _style(axis: Axes, x: str, y: str) -> None:
    axis.set_xlabel(x, fontsize=FONT, labelpad=2)
    axis.set_ylabel(y, fontsize=FONT, labelpad=2)
    axis.tick_params(labelsize=FONT - 1, width=0.5, length=2, pad=1.5)
    for spine in axis.spines.values():
        spine.set_linewidth(0.5)


def _hide_rest(axes: NDArray[np.object_], used: int) -> None:
    for axis in axes.flat[used:]:
        axis.set_axis_off()


def _mean_matrix(row: LabelledRow) -> Array:
    return np.asarray(np.array(row.accuracy_matrix, dtype=float).mean(0))


def _confusion(row: LabelledRow) -> Array:
    """All seeds together, as per cent of the samples shown (rows)."""
    counts = np.array(row.confusion, dtype=float).sum(0)
    total = counts.sum(1, keepdims=True)
    return np.asarray(np.divide(100 * counts, total, out=np.full_like(counts, np.nan), where=total > 0))


def _task_names(row: LabelledRow) -> list[str]:
    names = [" ".join(task) for task in row.tasks]
    return names if max(map(len, names)) <= 5 else [str(k + 1) for k in range(len(names))]


def _class_names(row: LabelledRow) -> list[str]:
    if row.scenario == "domain":
        return [str(k + 1) for k in range(len(row.confusion[0]))]
    return [name for task in row.tasks for name in task]


def _label(row: LabelledRow, length: int = 40) -> str:
    own = f" [{row.differs}]" if row.differs else ""
    return plain(f"{method_label(row)}{own}, {row.head.replace('_', '-')}", length)


def _group(row: LabelledRow, length: int = 42) -> str:
    data = row.dataset if row.encoder == "none" else f"{row.dataset} ({row.encoder})"
    short = data if len(data) <= 30 else data[:29] + "…"
    return plain(f"{short}, {setting(row)}", length)
