"""Packs: what may train side by side does, equals the same runs alone, and a diverging neighbour does no harm."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from efc.runs import worker
from efc.runs.config import RunConfig, make_config
from efc.runs.engines import InlineEngine, Outcome, Surroundings
from efc.runs.identity import Run
from efc.runs.plan import Pack, expand, fitting, make_packs, place_of
from efc.runs.session import Session
from efc.runs.trust import Trust
from efc.search.sweep import trial_config

QUICK = {"dataset": "digits", "seeds": 2, "epochs": 2, "hidden": [10], "device": "cpu"}


def config(**settings: Any) -> RunConfig:
    return make_config(QUICK | settings, trust=Trust.of(settings))


def runs_of(given: RunConfig) -> list[Run]:
    return [run for row in expand(given, "data") for run in row]


def test_runs_that_differ_in_numbers_and_seeds_share_a_pack() -> None:
    base = config(methods="efc")
    varied = trial_config(
        base, [{"beta": 1.0}, {"beta": 5.0, "lr": 1e-3}, {"beta": 2.0, "feedback": "least_control"}], 2, 2
    )
    packs = make_packs(runs_of(varied), place_of(base), None)
    assert [len(pack.runs) for pack in packs] == [4, 2]
    assert packs[0].options().to_mapping()["beta"] == [1.0, 1.0, 5.0, 5.0]
    assert packs[0].options().to_mapping()["kappa"] == 0.1
    assert [run.seed for run in packs[0].runs] == [0, 1, 0, 1]


@pytest.mark.parametrize(
    "change",
    [
        {"methods": "ewc"},
        {"head": "random"},
        {"scenario": "task"},
        {"epochs": 3},
        {"hidden": [11]},
        {"derpp": {"buffer": 7}},
    ],
    ids=str,
)
def test_what_must_not_share_a_pack_does_not(change: dict[str, Any]) -> None:
    base = {"methods": "derpp", "head": "least_squares"}
    both = runs_of(config(**base)) + runs_of(config(**(base | change)))
    packs = make_packs(both, place_of(config()), None)
    assert [len(pack.runs) for pack in packs] == [2, 2]


def test_at_most_so_many_and_no_more_than_memory_holds() -> None:
    runs = runs_of(config(methods="sgd", seeds=7))
    assert [len(pack.runs) for pack in make_packs(runs, place_of(config()), None, at_most=3)] == [3, 3, 1]
    small = runs[0].settings
    large = replace(small, hidden=(1000, 1000), batch_size=4096, dataset="mnist")
    assert 1 <= fitting(large, "cpu", (60_000, 784)) < fitting(small, "cpu", (1400, 64)) <= 1024
    wide = fitting(large, "cpu", (60_000, 50_000))
    assert 1 <= wide < fitting(large, "cpu", (60_000, 784))
    heads = ("least_squares", "analytic", "compensated", "input_compensated")
    sizes = [fitting(replace(small, hidden=(5000,), head=head), "cpu", (60_000, 512)) for head in heads]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 2 * sizes[2]  # moments of 5000 features are larger than the network


def test_remembered_activity_takes_its_part_of_the_memory() -> None:
    def runs_that_fit(method: str, **options: Any) -> int:
        settings = runs_of(config(methods=method, seeds=1, head="least_squares", hidden=[5000], **{method: options}))[
            0
        ].settings
        return fitting(settings, "cpu", (60_000, 512))

    paper, whole, sketched = runs_that_fit("efc-paper"), runs_that_fit("efc"), runs_that_fit("efc", rank=50)
    assert whole < 0.5 * paper  # 5001 x 5001 numbers beside 5000 x 512 weights
    assert whole < sketched <= paper
    assert runs_that_fit("sgd", step="natural") < 0.5 * runs_that_fit("sgd")


def test_an_interrupted_pack_is_formed_again(tmp_path: Path) -> None:
    """Whatever fits today: the size of a pack is part of its checkpoint."""
    runs = runs_of(config(methods="sgd", seeds=6))
    old = Pack((runs[4], runs[1], runs[2]), place_of(config()))
    folder = tmp_path / old.id
    folder.mkdir()
    (folder / "000003.json").write_text(json.dumps({"runs": [run.id for run in old.runs]}))
    (tmp_path / "nonsense").mkdir()
    (tmp_path / "nonsense" / "000001.json").write_text("{")
    packs = make_packs(runs, place_of(config()), tmp_path)
    assert {pack.id for pack in packs} >= {old.id}
    assert sorted(len(pack.runs) for pack in packs) == [3, 3]


def test_a_pack_equals_its_runs_alone_and_a_diverging_neighbour_does_no_harm() -> None:
    """Three settings together and apart; the middle one diverges to NaN and is reported as diverged."""
    base = config(methods="efc", head="least_squares", seeds=1)
    varied = trial_config(base, [{"lr": 1e-3}, {"lr": 1e30}, {"lr": 3e-3, "beta": 50.0}], 1, 2)
    runs = runs_of(replace(varied, evaluate="test"))
    together = worker.train_pack(Pack(tuple(runs), place_of(base)))
    assert together is not None
    assert [result.diverged for result in together] == [False, True, False]
    assert together[1].metrics["accuracy"] == 0
    for k in (0, 2):
        alone = worker.train_pack(Pack((runs[k],), place_of(base)))
        assert alone is not None
        np.testing.assert_allclose(
            together[k].metrics["accuracy"], alone[0].metrics["accuracy"], atol=0.3
        )  # a test image or so: the order of float32 sums differs


class Small(InlineEngine):
    """An engine with memory for two runs."""

    def start(self, pack: Pack) -> None:
        self.sizes = [*getattr(self, "sizes", []), len(pack.runs)]
        if len(pack.runs) > 2:
            self.ended.append(Outcome(pack, "too_big"))
        else:
            super().start(pack)


def test_a_pack_too_big_for_memory_is_halved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Small(Surroundings(tmp_path / "checkpoints"))
    monkeypatch.setattr("efc.runs.session.make_engine", lambda *given: engine)
    with Session(tmp_path) as session:
        session.plan([config(methods="analytic", seeds=5)])
        session.compute()
        assert len(session.results) == 5
        assert not session.failures
    assert engine.sizes == [5, 2, 3, 1, 2]


def test_out_of_memory_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    given = config(methods="sgd")
    pack = Pack(tuple(runs_of(given)), place_of(given))

    def fail(*args: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("efc.runs.engines.train_pack", fail)
    engine = InlineEngine(Surroundings())
    engine.start(pack)
    assert [outcome.kind for outcome in engine.wait(0)] == ["too_big"]


def test_a_failing_method_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bad_method.py").write_text(
        "from efc.learners import SGD\nclass Bad(SGD):\n    def descent(self, x, y):\n"
        "        raise ZeroDivisionError('oops')\n"
    )
    monkeypatch.chdir(tmp_path)
    with Session() as session:
        session.plan([config(methods="bad_method:Bad,sgd")])
        session.compute()
    assert len(session.results) == 2
    ((pack, message),) = session.failures
    assert pack.settings.method == "bad_method:Bad"
    assert "ZeroDivisionError: oops" in message
