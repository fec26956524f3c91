"""How much of a class is found that has a few samples: the last of the ten digits, each digit in turn.

    python benchmarks/few_samples.py

The other nine come first, three at a time, with about 135 training samples each. Printed is the share of the last
class's test samples that are found, and the accuracy over all classes, means over the ten digits, in per cent.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from efc import EFCClassifier

SETTINGS = (
    ("EFCClassifier()", {}),
    ('class_weight="balanced"', {"class_weight": "balanced"}),
    ("readout=regression", {"options": {"readout": "regression"}}),
)


def measure(rare: int, n: int, settings: dict[str, object]) -> tuple[float, float]:
    """The last class's recall, and the accuracy."""
    x, x_test, y, y_test = train_test_split(*load_digits(return_X_y=True), random_state=0)
    others = [k for k in range(10) if k != rare]
    classifier = EFCClassifier(random_state=rare, **settings)  # type: ignore[arg-type]
    for labels in (others[:3], others[3:6], others[6:]):
        mine = np.isin(y, labels)
        classifier.partial_fit(x[mine], y[mine])
    few = np.flatnonzero(y == rare)[:n]
    classifier.partial_fit(x[few], y[few])
    answers = classifier.predict(x_test)
    return 100 * float((answers[y_test == rare] == rare).mean()), 100 * float((answers == y_test).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", default="3,10,30", help="how many, with commas between them")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    print("| samples of the last class | " + " | ".join(f"{name}: recall, accuracy" for name, _ in SETTINGS) + " |")
    print("|---" * (1 + len(SETTINGS)) + "|")
    for n in map(int, given.samples.split(",")):
        cells = [np.mean([measure(rare, n, dict(options)) for rare in range(10)], 0) for _, options in SETTINGS]
        print(
            f"| {n} | " + " | ".join(f"{recall:.0f}, {accuracy:.1f}" for recall, accuracy in cells) + " |", flush=True
        )


if __name__ == "__main__":
    main()
