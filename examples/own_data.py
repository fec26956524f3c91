"""Your own data, arriving class by class: learn each arrival, save, and go on next time from the file.

Any NumPy arrays will do; scikit-learn's wines (178 samples, 13 measurements, three cultivars) stand in for yours here.
On every arrival the classifier is loaded, learns the new class without seeing the old ones again, and is measured on
samples it never learned from.
"""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split

from efc import EFCClassifier

FILE = Path("wine.safetensors")

# Set the test samples aside before anything is looked at, the same share of every class.
x, y = load_wine(return_X_y=True)
names = np.array(["barolo", "grignolino", "barbera"])  # labels may be texts
x_train, x_test, y_train, y_test = train_test_split(x, names[y], test_size=0.4, random_state=0, stratify=y)


def arrive(label: str) -> None:
    """One day's work: nothing but the file is left of the days before."""
    classifier = EFCClassifier.load(FILE) if FILE.exists() else EFCClassifier(random_state=0)
    mine = y_train == label
    classifier.partial_fit(x_train[mine], y_train[mine])
    classifier.save(FILE)

    # A number to trust: held-out samples of all classes met so far, not of today's alone; how far chance may have
    # moved it; and each class by itself, since a mean hides one that is forgotten.
    met = np.isin(y_test, classifier.classes_)
    right = classifier.predict(x_test[met]) == y_test[met]
    error = 100 * right.std() / np.sqrt(len(right))
    each = ", ".join(f"{name} {100 * right[y_test[met] == name].mean():.0f} %" for name in classifier.classes_)
    print(f"after {label}: {100 * right.mean():.1f} ± {error:.1f} % of {len(right)} held-out samples ({each})")


FILE.unlink(missing_ok=True)  # begin anew
for label in names:
    arrive(label)
