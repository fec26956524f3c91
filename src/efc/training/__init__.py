"""Training on a stream of tasks, and measuring what was learned."""

from efc.training.evaluation import EVALUATED, accuracy, confusion, predictions
from efc.training.loop import Boundary, Effort, Progress, Training, TrainingResult, train

__all__ = [
    "EVALUATED",
    "Boundary",
    "Effort",
    "Progress",
    "Training",
    "TrainingResult",
    "accuracy",
    "confusion",
    "predictions",
    "train",
]
