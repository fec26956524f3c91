"""Worker processes that die at moments other than the usual ones."""

from __future__ import annotations

import os
import signal

from efc.runs.config import make_config
from efc.runs.engines import ProcessEngine, Surroundings
from efc.runs.session import Session

QUICK = {"dataset": "digits", "methods": "sgd", "seeds": 1, "epochs": 1, "hidden": [4], "device": "cpu"}


def test_a_worker_that_died_while_it_had_nothing_to_do_is_replaced() -> None:
    with Session() as session:
        session.plan([make_config(QUICK)])
        session.compute()
        (run,), (pack,) = session.runs, session.packs
        with ProcessEngine(Surroundings(), 1) as engine:
            ((process, _),) = engine.workers.values()
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            engine.start(pack)
            ended = []
            while not ended:
                ended = engine.wait(60)
    (outcome,) = ended
    assert outcome.kind == "done", outcome.message
    assert outcome.results is not None
    assert outcome.results[0].metrics == session.results[run.id].metrics
