"""The training loop: own order per run, honest evaluation, counts that add up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from efc.errors import EFCError
from efc.learners import EFC, SGD, EFCOptions, Options
from efc.training.batches import batches
from efc.training.loop import Training, train
from support.answers import Oracle
from support.learner_helpers import PLAIN
from support.tasks import toy_stream


def test_every_run_sees_every_sample_once_in_its_own_order() -> None:
    def epoch(seeds: list[int]) -> torch.Tensor:
        generators = [torch.Generator().manual_seed(s) for s in seeds]
        found = batches(23, 7, generators)
        assert [batch.shape for batch in found] == [(len(seeds), size) for size in (7, 7, 7, 2)]
        return torch.cat(found, 1)

    both = epoch([4, 9])
    assert torch.equal(both.sort(1).values, torch.arange(23).expand(2, -1))
    assert not torch.equal(both[0], both[1])
    assert torch.equal(both[1], epoch([9])[0])


def test_results_are_consistent() -> None:
    stream = toy_stream("class")
    result = train(SGD((6, 12, 6), [0, 1, 2], Options(**PLAIN, lr=1e-2)), stream, epochs=5, batch_size=8)
    A = result.accuracy_matrix
    assert np.isnan(A[:, 0, 1:]).all()
    assert not np.isnan(A[:, np.tril_indices(3)[0], np.tril_indices(3)[1]]).any()
    sizes = [len(task.parts["test"].y) for task in stream.tasks]
    np.testing.assert_array_equal(result.confusion.sum((1, 2)), sum(sizes))
    for j, task in enumerate(stream.tasks):
        own = np.einsum("rkk->rk", result.confusion)[:, task.outputs].sum(1)
        np.testing.assert_allclose(100 * own / sizes[j], A[:, -1, j])
    assert result.unsettled is None
    assert result.diverged == []


def test_unsettled_samples_are_counted() -> None:
    options = EFCOptions(**PLAIN, solver="fixed_point", solver_options={"max_steps": 1, "tol": 1e-6})
    result = train(EFC((6, 12, 6), [0, 1], options), toy_stream("class"), epochs=1, batch_size=8)
    assert result.unsettled is not None
    assert (result.unsettled > 0.5).all()


def test_task_il_is_easier_than_class_il_for_plain_training() -> None:
    final = {}
    for scenario in ("class", "task"):
        learner = SGD((6, 12, 6), [0, 1], Options(**PLAIN, lr=1e-2), head="random")
        final[scenario] = train(learner, toy_stream(scenario), epochs=10, batch_size=8).accuracy_matrix[:, -1].mean()
    assert final["class"] < 45
    assert final["task"] > 80


def test_validation_part_is_evaluated_when_asked_for() -> None:
    stream = toy_stream("class")
    learner = SGD((6, 12, 6), [0], Options(**PLAIN, lr=1e-2))
    confusion = train(learner, stream, epochs=1, batch_size=8, evaluate="validation").confusion
    assert confusion.sum() == sum(len(task.parts["validation"].y) for task in stream.tasks)
    with pytest.raises(EFCError, match="evaluate"):
        train(learner, stream, evaluate="tests")
    with pytest.raises(EFCError, match="epochs"):
        train(learner, stream, epochs=0)


def test_batches_are_the_orders_cut_up() -> None:
    """Every epoch of every run trains on every sample once, in batches of the size asked for."""

    class Watched(SGD):
        def step(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
            seen.append(x.clone())
            return super().step(x, y)

    seen: list[torch.Tensor] = []
    stream = toy_stream("class")
    train(Watched((6, 4, 6), [0, 1]), stream, epochs=2, batch_size=7)
    n = [len(task.parts["train"].y) for task in stream.tasks]
    assert [x.shape[1] for x in seen] == [min(7, m - at) for m in n for _ in range(2) for at in range(0, m, 7)]
    first = torch.cat(seen[: -(-n[0] // 7)], 1)
    for run in range(2):
        assert torch.equal(first[run].sort(0).values, stream.tasks[0].parts["train"].x.sort(0).values)
    assert not torch.equal(first[0], first[1])


@pytest.mark.parametrize("word", ["batch", "epoch", "task"])
@pytest.mark.parametrize("make", [lambda: EFC((6, 8, 6), [0, 1], EFCOptions(lr=1e-2)), lambda: SGD((6, 8, 6), [3])])
def test_stopped_at_every_boundary_and_gone_on_with_is_the_whole_bit_for_bit(
    make: Callable[[], SGD], word: str
) -> None:
    """At every single batch (epoch, task): stop, take the state, give it to a fresh training, go on."""
    stream = toy_stream("class")
    whole = Training(make(), stream, 2, 8)
    assert whole.run()
    state: dict[str, torch.Tensor] = {}
    stops = 0
    while True:
        part = Training(make(), stream, 2, 8)
        if state:
            part.load_state_dict(state)
        done = part.run(boundary=lambda at: at == word)
        state = {key: value.clone() for key, value in part.state_dict().items()}
        if done:
            break
        stops += 1
    assert stops >= {"batch": 20, "epoch": 6, "task": 2}[word]
    for key, value in whole.state_dict().items():
        if key != "seconds":
            assert torch.equal(torch.nan_to_num(value), torch.nan_to_num(state[key])), key
    np.testing.assert_array_equal(whole.result().confusion, part.result().confusion)
    np.testing.assert_equal(whole.result().unsettled, part.result().unsettled)
    efforts = [vars(t.result().effort or object) for t in (whole, part)]
    for name in ("psi", "gamma", "unsettled"):
        np.testing.assert_equal(efforts[0].get(name), efforts[1].get(name))


def test_a_diverged_run_has_no_entries_in_its_confusion_and_the_schedule_spans_all_epochs() -> None:
    stream = toy_stream("class")
    learner = Oracle(stream, lambda y: y, runs=2)
    learner.theta[1] = float("nan")
    plain = learner.logits
    learner.logits = lambda x, classes: plain(x, classes) + learner.theta[:, :1, None]  # type: ignore[method-assign]
    result = train(learner, stream, epochs=3, batch_size=8)
    assert result.diverged == [1]
    assert result.confusion[1].sum() == 0
    assert result.confusion[0].sum() > 0
    assert learner.planned == [3 * -(-len(task.parts["train"].y) // 8) for task in stream.tasks]


def test_small_trainings_use_one_thread_and_give_the_others_back() -> None:
    torch.set_num_threads(2)
    seen: list[int] = []
    train(SGD((6, 4, 6), [0]), toy_stream("class"), epochs=1, progress=lambda *_: seen.append(torch.get_num_threads()))
    assert set(seen) == {1}
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
