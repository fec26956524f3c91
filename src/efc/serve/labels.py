"""The labels of a model: those that it has met, and those of batches on their way to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence

from efc.errors import EFCError, shown
from efc.serve.samples import Label, check_kind


class Labels:
    """What a label may be, and how many there may be.

    A label is there while a batch that brings it is on its way. When the batch is learned it stays; when the batch
    comes to nothing, and no other brings it, it is gone again.

    Args:
        met: those that were learned.
        most: how many there may be.
    """

    def __init__(self, met: Iterable[Label], most: int) -> None:
        self.met, self.most = set(met), most
        self.coming: Counter[Label] = Counter()
        """Of the labels on their way, how many batches bring them."""

    def check(self, labels: Sequence[Label]) -> None:
        """Refuse labels of another kind than those there are, or of too many classes."""
        there = self.met or self.coming
        if there:
            check_kind(labels, next(iter(there)))
        new = {label for label in labels if label not in self.met and label not in self.coming}
        if new and len(self.met | self.coming.keys()) + len(new) > self.most:
            first = next(label for label in labels if label in new)
            raise EFCError(f"labels: with {shown(first)} there would be more than the {self.most} classes allowed")

    def take(self, labels: Sequence[Label]) -> None:
        """A batch is on its way."""
        self.coming.update(set(labels))

    def settle(self, labels: Sequence[Label], learned: Container[Label] = ()) -> None:
        """It has come to its end: what of its labels is among those ``learned`` stays."""
        for label in set(labels):
            self.coming[label] -= 1
            if not self.coming[label]:
                del self.coming[label]
            if label in learned:
                self.met.add(label)
