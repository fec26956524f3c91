"""The picture of what is remembered, for docs/concepts.md: moments of old activity, and how they pull on weights.

python tools/remembered.py
"""

from __future__ import annotations

import math

import torch
from matplotlib import pyplot as plt

from efc.core.moments import Moments
from pictures import DOCS

BLUE, RED, GREY = "#3f51b5", "#c62828", "#777777"


def main() -> None:
    generator = torch.Generator().manual_seed(1)
    spread = torch.tensor([[1.0, 0.5], [0.6, 0.55]], dtype=torch.float64)
    old = (torch.randn(400, 2, generator=generator, dtype=torch.float64) @ spread.T).abs() * torch.tensor([1.0, 0.8])
    kept = Moments(1, 2)
    kept.add(old[None], 1 / len(old))
    A = kept.A[0, :2, :2]
    values, vectors = torch.linalg.eigh(A)
    angle = torch.linspace(0, 2 * math.pi, 361, dtype=torch.float64)
    directions = torch.stack([angle.cos(), angle.sin()], 1)
    cost = (directions @ A * directions).sum(1)

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.2), layout="constrained")
    left.scatter(*old.T, s=7, color=GREY, alpha=0.4, label="activity of old tasks: not kept")
    ring = (vectors * values.sqrt()) @ directions.T
    left.plot(*ring, color=BLUE, lw=2, label="its second moments $A$: kept")
    for k, (name, colour) in enumerate((("unused: free", GREY), ("used: held", RED))):
        tip = 2.2 * vectors[:, k] * vectors[1, k].sign()
        left.annotate("", tip.tolist(), (0, 0), arrowprops={"arrowstyle": "->", "color": colour, "lw": 2})
        left.text(*(1.12 * tip).tolist(), name, color=colour, ha="left" if k else "center", va="center")
    left.set(xlabel="rate of input 1", ylabel="rate of input 2", title="what a layer remembers", aspect="equal")
    left.set_xlim(-2.4, 3.6)
    left.set_ylim(-1.2, 3.2)
    left.legend(loc="upper left", fontsize=8, frameon=False)
    right.plot(*(directions * cost.unsqueeze(1)).T, color=BLUE, lw=2)
    right.fill(*(directions * cost.unsqueeze(1)).T, color=BLUE, alpha=0.12)
    right.axhline(0, color=GREY, lw=0.6)
    right.axvline(0, color=GREY, lw=0.6)
    right.set(xlabel="change of weight 1", ylabel="change of weight 2", aspect="equal")
    right.set_title(r"how much a change of unit size costs, $D A\,D^\top$")
    for axes in (left, right):
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    figure.savefig(DOCS / "pictures" / "remembered.png", dpi=100, metadata={"Software": None})


if __name__ == "__main__":
    main()
