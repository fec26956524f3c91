"""The paper's table (de Haan et al., arXiv 2602.04542): accuracy after the last task, mean and deviation, five seeds.

Its CIFAR-10 and Tiny-ImageNet columns use ResNet18 features; its JOINT figures there are those of a ResNet18 trained
end to end.
"""

from __future__ import annotations

from efc.runs.results import ResultRow

_COLUMNS = (("mnist", "task"), ("mnist", "class"), ("cifar10", "task"), ("cifar10", "class"),
            ("tiny-imagenet", "task"), ("tiny-imagenet", "class"))  # fmt: skip
_ROWS = {
    "joint": ((99.7, 0.0), (98.2, 0.1), (98.3, 0.1), (92.2, 0.2), (82.0, 0.1), (60.0, 0.2)),
    "sgd": ((98.1, 0.1), (19.3, 0.0), (95.5, 0.5), (19.6, 0.1), (28.0, 0.5), (3.8, 0.1)),
    "ewc": ((97.2, 0.6), (19.8, 0.0), (95.5, 1.2), (20.9, 1.1), (34.2, 0.4), (4.6, 0.1)),
    "online_ewc": ((99.2, 0.4), (20.2, 0.8), (95.9, 0.7), (21.2, 2.0), (35.5, 0.3), (4.8, 0.0)),
    "si": ((97.5, 0.9), (19.7, 0.0), (92.6, 1.3), (19.8, 0.1), (35.5, 0.5), (4.7, 0.0)),
    "efc-paper": ((98.3, 0.7), (51.4, 4.8), (96.2, 0.3), (50.2, 7.0), (37.2, 0.4), (8.8, 0.1)),
    "derpp": ((98.6, 0.2), (71.1, 2.2), (95.4, 0.8), (62.3, 1.2), (39.0, 1.6), (10.5, 1.2)),
}
PAPER: dict[tuple[str, str, str], tuple[float, float]] = {
    (dataset, scenario, method): value
    for method, values in _ROWS.items()
    for (dataset, scenario), value in zip(_COLUMNS, values, strict=True)
}


def reported(row: ResultRow) -> tuple[float, float] | None:
    """What the paper reports for the method of a results row, if it has it."""
    if row.variant not in ("none", "paper") or "stream" in row.config:
        return None
    name = f"{row.method}-paper" if row.variant == "paper" else row.method
    return PAPER.get((row.dataset, row.scenario, name))
