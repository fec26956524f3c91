"""`efc.run`: training and comparing methods from Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from efc.errors import EFCError
from efc.report.terminal import PackProgress, make_console
from efc.runs.config import make_config
from efc.runs.engines import Listener
from efc.runs.plan import Pack
from efc.runs.session import Session, Sinks
from efc.runs.trust import Trust


def run(
    listener: Listener | None = None, progress: bool = False, trust: bool = False, **settings: object
) -> dict[str, Any]:
    """Train and compare methods; the keywords are the flags of `efc run`, with a mapping per method for its options.

    ``listener`` is called after every epoch with what is being trained and (task, epoch, epochs), counted from 1;
    ``progress=True`` shows bars on a terminal, and plain lines in a notebook or a log. A method of your own
    (``methods="module:Class"``) is imported, which runs its code; one that a ``preset_file`` names, only if ``trust``.

    Examples:
        >>> document = run(dataset="digits", methods=["efc", "sgd"], seeds=2, epochs=1, efc={"beta": 0.1})
        >>> [(row["method"], len(row["accuracy"]["per_seed"])) for row in document["rows"]]
        [('efc', 2), ('sgd', 2)]
    """

    @contextmanager
    def watched(packs: Sequence[Pack]) -> Iterator[Listener | None]:
        with ExitStack() as stack:
            shown = stack.enter_context(PackProgress(packs, make_console(stderr=True))) if progress else None
            yield _both(shown, listener) if shown and listener else shown or listener

    with Session(sinks=Sinks(progress=watched)) as session:
        session.plan([make_config(settings, trust=Trust.of(settings, files=trust))])
        session.compute()
        if session.failures:
            raise EFCError(session.failures[0][1])
        return session.document().to_json()


def _both(first: Listener, second: Listener) -> Listener:
    def listen(pack: Pack, task: int, epoch: int, epochs: int) -> None:
        first(pack, task, epoch, epochs)
        second(pack, task, epoch, epochs)

    return listen
