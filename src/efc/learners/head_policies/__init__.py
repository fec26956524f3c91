"""Head policies: what happens to the head's rows when a task begins and ends, for every learner alike.

`random` leaves them as they were drawn, `zero` begins at zero. `least_squares` sets the new classes' rows by ridge
regression of their one-hot targets on the features of the new task alone. `analytic` keeps the second moments of the
features of all tasks (no samples) and solves the ridge problem over all classes seen, when a task begins and again when
it ends. `compensated` does the same and lets the moments of old tasks follow the features when these change,
`input_compensated` follows them more closely with the help of the inputs' moments. `gaussian` keeps these moments for
every class apart, and answers with the class whose Gaussian makes the input likeliest. In Class-IL this is much of what
lifts the accuracy off the floor: every result names its head policy.
"""

from __future__ import annotations

from collections.abc import KeysView

from efc.learners.head_policies.analytic import AnalyticHead
from efc.learners.head_policies.base import HeadPolicy, LeastSquaresHead, RandomHead, ZeroHead
from efc.learners.head_policies.compensated import CompensatedHead, InputCompensatedHead
from efc.learners.head_policies.gaussian import GaussianHead

POLICIES: dict[str, type[HeadPolicy]] = {
    cls.name: cls
    for cls in (
        RandomHead,
        ZeroHead,
        LeastSquaresHead,
        AnalyticHead,
        CompensatedHead,
        InputCompensatedHead,
        GaussianHead,
    )
}
"""The head policies by name. One that is added here can be chosen everywhere."""
HEADS: KeysView[str] = POLICIES.keys()
"""Their names."""

__all__ = [
    "HEADS",
    "POLICIES",
    "AnalyticHead",
    "CompensatedHead",
    "GaussianHead",
    "HeadPolicy",
    "InputCompensatedHead",
    "LeastSquaresHead",
    "RandomHead",
    "ZeroHead",
]
