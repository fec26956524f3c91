"""Continual learners, one file per method, all on the same run axis, head policies, activation and optimiser."""

from __future__ import annotations

from efc.core.task import TaskData
from efc.errors import EFCError, choose
from efc.learners.activity import Activity, ActivityEWC, ActivityEWCOptions, ActivityOptions
from efc.learners.analytic import Analytic
from efc.learners.base import Learner
from efc.learners.der import DER, DEROptions, DERpp, DERppOptions
from efc.learners.efc import EFC, MEMORIES, EFCOptions
from efc.learners.efc_paper import EFCPaper, EFCPaperOptions
from efc.learners.ewc import EWC, EWCOptions
from efc.learners.frozen import Frozen
from efc.learners.full_fisher import FullFisher, FullFisherOptions
from efc.learners.gpm import GPM, GPMOptions
from efc.learners.gradient import GradientLearner
from efc.learners.head_policies import HEADS, POLICIES, HeadPolicy
from efc.learners.joint import Joint
from efc.learners.kfac import KFAC, KFACOptions
from efc.learners.lwf import LWF, LWFOptions
from efc.learners.mas import MAS, MASOptions
from efc.learners.memory import Memory
from efc.learners.ncl import NCL, NCLOptions
from efc.learners.online_ewc import OnlineEWC, OnlineEWCOptions
from efc.learners.options import Options, choice, number
from efc.learners.owm import OWM, OWMOptions
from efc.learners.sgd import SGD
from efc.learners.si import SI, SIOptions
from efc.learners.slda import SLDA, SLDAOptions
from efc.learners.state import Stored
from efc.learners.variants import ABLATIONS
from efc.plugins import load_object

LEARNERS: dict[str, type[Learner]] = {
    cls.name: cls
    for cls in (
        EFC, EFCPaper, Activity, ActivityEWC, EWC, OnlineEWC, SI, MAS, KFAC, NCL, OWM, GPM, LWF, FullFisher, DER, DERpp,
        Analytic, SLDA, SGD, Frozen, Joint,
    )
}  # fmt: skip
"""The methods by name."""


def find_learner(name: str) -> type[Learner]:
    """Look a method up by name, or import one's own as ``module:Class``."""
    if ":" not in name:
        return LEARNERS[choose("methods", name, LEARNERS)]
    found = load_object("methods", name)
    if not (isinstance(found, type) and issubclass(found, Learner)):
        raise EFCError(f"methods: {name} is not a subclass of efc.learners.Learner")
    if hasattr(found, "descent") and not issubclass(found, GradientLearner):
        raise EFCError(f"methods: {name} has a `descent`; such a method derives from efc.learners.GradientLearner")
    if found.__abstractmethods__:
        raise EFCError(f"methods: {name} lacks the method {', '.join(sorted(found.__abstractmethods__))}")
    if found.name in LEARNERS and LEARNERS[found.name] is not found:
        raise EFCError(f"methods: {name} calls itself {found.name!r}, which is taken; give it another `name`")
    return found


__all__ = [
    "ABLATIONS",
    "DER",
    "EFC",
    "EWC",
    "GPM",
    "HEADS",
    "KFAC",
    "LEARNERS",
    "LWF",
    "MAS",
    "MEMORIES",
    "NCL",
    "OWM",
    "POLICIES",
    "SGD",
    "SI",
    "SLDA",
    "Activity",
    "ActivityEWC",
    "ActivityEWCOptions",
    "ActivityOptions",
    "Analytic",
    "DEROptions",
    "DERpp",
    "DERppOptions",
    "EFCOptions",
    "EFCPaper",
    "EFCPaperOptions",
    "EWCOptions",
    "Frozen",
    "FullFisher",
    "FullFisherOptions",
    "GPMOptions",
    "GradientLearner",
    "HeadPolicy",
    "Joint",
    "KFACOptions",
    "LWFOptions",
    "Learner",
    "MASOptions",
    "Memory",
    "NCLOptions",
    "OWMOptions",
    "OnlineEWC",
    "OnlineEWCOptions",
    "Options",
    "SIOptions",
    "SLDAOptions",
    "Stored",
    "TaskData",
    "choice",
    "find_learner",
    "number",
]
