"""A diagnosis finds what was planted, and a training that is examined is the same, bit for bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from efc.learners import HEADS, LEARNERS, SGD, GradientLearner, Learner, Options
from efc.streams import Stream
from efc.training.evaluation import confusion
from efc.training.examination import Diagnosis, Examination, confused, drift
from efc.training.loop import Training
from efc.training.oracle import held_out
from support.learner_helpers import OPTIONS, PLAIN, SIZES
from support.tasks import toy_stream

CHANCE = {"class": 100 / 6, "task": 50.0, "domain": 50.0}


def make(
    name: str, stream: Stream, head: str | None = None, seeds: tuple[int, ...] = (0, 1), **options: Any
) -> Learner:
    sizes = (*SIZES[:-1], stream.n_outputs)
    return LEARNERS[name](sizes, list(seeds), replace(OPTIONS[name], **options), head, dtype=torch.float64)


def trained(learner: Learner, stream: Stream, diagnose: bool = True, epochs: int = 1) -> Training:
    training = Training(learner, stream, epochs=epochs, batch_size=8, diagnose=diagnose)
    training.run()
    return training


def examined(learner: Learner, stream: Stream) -> list[Diagnosis]:
    found = trained(learner, stream).result().diagnoses
    assert found is not None
    return found


def looked_at(training: Training) -> list[Diagnosis]:
    """As the learner is now, whatever was done to it since it was trained."""
    counts = confusion(training.learner, training.stream, "test")
    right = [[c[t.outputs, t.outputs].trace() / c[t.outputs].sum() for t in training.stream.tasks] for c in counts]
    accuracy = np.array(right) if training.stream.scenario != "domain" else np.ones((len(counts), 3))
    assert training.examination is not None
    return training.examination.diagnoses(100 * accuracy, counts)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_training_that_is_examined_is_the_same(name: str) -> None:
    """Every method, one that learns no features too: it says so."""
    stream = toy_stream("class", dtype=torch.float64)
    plain, watched = (trained(make(name, stream), stream, diagnose) for diagnose in (False, True))
    assert torch.equal(plain.learner.theta, watched.learner.theta)
    one, other = plain.result(), watched.result()
    np.testing.assert_array_equal(one.accuracy_matrix, other.accuracy_matrix)
    np.testing.assert_array_equal(one.confusion, other.confusion)
    assert torch.equal(plain.learner.theta, watched.learner.theta)
    assert one.diagnoses is None
    for run, found in enumerate(other.diagnoses or []):
        assert found.accuracy == other.accuracy_matrix[run, -1].tolist()
        if isinstance(watched.learner, GradientLearner):
            assert found.note == ""
            assert found.drift is not None
            assert found.drift[-1] == 0.0
            assert (found.drift[0] or 0) > 0 or name == "frozen"
            assert all(0 <= share <= 100 for share in [*(found.oracle or [-1]), *(found.ridge or [-1])])
        else:
            assert found.oracle is found.ridge is found.drift is found.lost is None
            assert found.note == f"{name}: it is a closed form: it learns no features, its head is all there is to it"
            assert found.newest is not None


@pytest.mark.parametrize("head", HEADS)
def test_every_head_policy_is_measured_by_the_same_oracle(head: str) -> None:
    """Frozen features: whatever the head does, they are the same, and so is the oracle."""
    stream = toy_stream("class")
    (found,) = examined(make("sgd", stream, head, (0,), lr=1e-12), stream)
    (expected,) = examined(make("sgd", stream, "random", (0,), lr=1e-12), stream)
    assert found.oracle == expected.oracle
    assert found.reads == "features"


@pytest.mark.parametrize("scenario", ["class", "task", "domain"])
def test_a_head_that_is_destroyed_is_told_from_features_that_are(scenario: str) -> None:
    stream = toy_stream(scenario, dtype=torch.float64)
    training = trained(make("joint", stream, "random", (0,)), stream, epochs=20)
    good = looked_at(training)
    for one in good:
        assert np.mean(one.oracle or 0) > 95
    W, b = training.learner.layers.weights, training.learner.layers.biases
    kept = W[-1].clone(), b[-1].clone()
    W[-1].neg_()
    b[-1].neg_()
    for before, one in zip(good, looked_at(training), strict=True):
        assert one.oracle == before.oracle  # the features are what they were
        assert one.drift == before.drift
        if scenario != "domain":
            assert np.mean(one.lost or 0) > 60
    W[-1].copy_(kept[0])
    b[-1].copy_(kept[1])
    W[0].zero_()
    for one in looked_at(training):
        assert np.mean(one.oracle or 0) == pytest.approx(
            CHANCE[scenario], abs=5
        )  # among the outputs that are asked about
        assert np.mean(one.ridge or 0) == pytest.approx(CHANCE[scenario], abs=5)
        if scenario != "domain":
            assert abs(np.mean(one.lost or 99)) < 10


def test_what_does_not_learn_does_not_drift() -> None:
    stream = toy_stream("class", dtype=torch.float64)
    for one in examined(make("frozen", stream), stream):  # learns the first task, no other
        assert one.drift == [0.0, 0.0, 0.0]
        assert one.explained == [None, None, None]


def test_inputs_that_are_standardised_anew_are_no_drift() -> None:
    """Weights follow the inputs' scale; what the network makes of an input stays the same."""
    stream = toy_stream("class", dtype=torch.float64)
    options = replace(OPTIONS["sgd"], inputs="standardised", lr=1e-15)
    learner = SGD((6, 8, 7, 6), [0], options, "random", dtype=torch.float64)
    theta = learner.theta.clone()
    (found,) = examined(learner, stream)
    assert not torch.allclose(theta, learner.theta, atol=1e-3)
    assert found.drift is not None
    assert max(far or 0 for far in found.drift) < 1e-6


def test_drift_is_what_the_features_have_moved() -> None:
    """Against features worked out layer by layer from the parameters after each task."""
    stream = toy_stream("class", dtype=torch.float64)
    learner = make("sgd", stream, "random")
    training, kept = Training(learner, stream, 3, 8, diagnose=True), []

    def note(word: str) -> bool:
        if word == "task":
            kept.append(learner.theta.clone())
        return False

    training.run(boundary=note)
    found = training.result().diagnoses
    assert found is not None
    for run, one in enumerate(found):
        for t, far in enumerate(one.drift or []):
            x, features = stream.tasks[t].parts["train"].x, []
            for theta in (kept[t], kept[-1]):
                h = x
                layers = learner.layout.views(theta)
                for W, b in zip(layers.weights[:-1], layers.biases[:-1], strict=True):
                    h = (h @ W[run].T + b[run]).clamp_min(0)
                features.append(h)
            assert far == pytest.approx(float(100 * (features[1] - features[0]).norm() / features[0].norm()), rel=1e-9)


def planted() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Features, a linear change of them, and noise of the same size."""
    g = torch.Generator().manual_seed(0)
    then = torch.randn(4000, 12, generator=g, dtype=torch.float64).relu()
    change = then @ torch.randn(12, 12, generator=g, dtype=torch.float64) + 0.5
    noise = torch.randn(4000, 12, generator=g, dtype=torch.float64)
    return then, change, noise * change.norm() / noise.norm()


@pytest.mark.parametrize(("linear", "random", "share"), [(1.0, 0.0, 100.0), (0.0, 1.0, 0.0), (1.0, 1.0, 50.0)])
def test_what_a_linear_map_explains(linear: float, random: float, share: float) -> None:
    then, change, noise = planted()
    moved = linear * change + random * noise
    held = held_out(torch.arange(4000) % 2)
    far, explained = drift(then, then + moved, held)
    assert far == pytest.approx(float(100 * moved.norm() / then.norm()))
    assert explained == pytest.approx(share, abs=1e-3 if random == 0 else 2.0)


def test_what_cannot_be_said_of_a_drift() -> None:
    then, change, _ = planted()
    held = held_out(torch.zeros(4000, dtype=torch.long))
    assert drift(then, then, held) == (0.0, None)
    assert drift(torch.zeros_like(then), change, held) == (None, None)
    assert drift(then, then + change, torch.zeros_like(held))[1] is None


def test_where_the_head_reads_the_inputs_so_does_the_oracle() -> None:
    """A dead network: all that is known is in the inputs."""
    stream = toy_stream("class", dtype=torch.float64)
    found = []
    for skip in ("on", "off"):
        training = trained(make("sgd", stream, "input_compensated", skip=skip), stream)
        training.learner.layers.weights[0].zero_()
        found.append(looked_at(training)[0])
    both, alone = found
    assert both.reads == "features and inputs"
    assert np.mean(both.oracle or 0) > 95
    assert alone.reads == "features"
    assert np.mean(alone.oracle or 0) == pytest.approx(CHANCE["class"], abs=5)
    bare = Training(SGD((6, 6), [0], Options(**PLAIN), "random"), toy_stream("class"), 1, 8, diagnose=True)
    bare.run()
    (one,) = bare.result().diagnoses or []
    assert one.reads == "inputs"
    assert one.drift == [0.0, 0.0, 0.0]


def test_a_run_is_told_the_same_alone_and_beside_others() -> None:
    stream = toy_stream("class", dtype=torch.float64)
    together = examined(make("sgd", stream, seeds=(0, 1)), stream)
    (alone,) = examined(make("sgd", stream, seeds=(1,)), stream)
    assert together[1].oracle == alone.oracle
    assert together[1].drift == pytest.approx(alone.drift)
    assert together[0].drift != pytest.approx(alone.drift)


@pytest.mark.parametrize("inputs", ["raw", "standardised"])
def test_gone_on_with_from_a_checkpoint_it_is_told_the_same(inputs: str) -> None:
    stream = toy_stream("class", dtype=torch.float64)

    def begun() -> Training:
        return Training(make("sgd", stream, inputs=inputs), stream, 2, 8, diagnose=True)

    whole, first, second = begun(), begun(), begun()
    whole.run()
    seen: list[str] = []

    def in_the_last_task(word: str) -> bool:
        seen.append(word)
        return seen.count("task") == 2 and word == "batch"

    first.run(boundary=in_the_last_task)
    second.load_state_dict({key: value.clone() for key, value in first.state_dict().items()})
    assert second.run()
    assert second.result().diagnoses == whole.result().diagnoses


def test_a_run_that_diverged_has_no_features_and_its_neighbour_has() -> None:
    stream = toy_stream("class", dtype=torch.float64)
    training = trained(make("sgd", stream), stream)
    training.learner.theta[0] = float("nan")
    lost, fine = training.result().diagnoses or []
    assert lost.oracle is None
    assert lost.note == "sgd: training diverged: there are no features to look at"
    assert fine.oracle is not None


def test_the_worst_pairs_come_first() -> None:
    counts = torch.tensor([[8.0, 2, 0], [5, 45, 0], [0, 1, 0]])
    best = torch.tensor([[10.0, 0, 0], [25, 25, 0], [1, 0, 0]])
    found = confused(counts, "abc", best)
    assert [(one.shown, one.answered) for one in found] == [("b", "a"), ("a", "b"), ("c", "b")]
    assert [one.share for one in found] == [10.0, 20.0, 100.0]
    assert [one.oracle for one in found] == [50.0, 0.0, 0.0]


def test_answers_on_the_newest_classes_are_counted() -> None:
    stream = toy_stream("class", dtype=torch.float64)
    training = trained(make("joint", stream, "random", (0,)), stream, epochs=20)
    (first,) = looked_at(training)
    assert first.newest == pytest.approx(first.newest_oracle, abs=10)
    training.learner.layers.biases[-1][:, 4:] += 1e3  # the newest classes are the answer to everything
    for one in looked_at(training):
        assert one.newest == 100.0
        assert (one.newest_oracle or 0) < 10
        assert {pair.answered for pair in one.confused} <= {"e", "f"}


def test_only_where_classes_compete_are_there_newest_ones() -> None:
    for scenario in ("task", "domain"):
        stream = toy_stream(scenario, dtype=torch.float64)
        assert all(one.newest is one.newest_oracle is None for one in examined(make("sgd", stream, seeds=(0,)), stream))


def test_nothing_is_noted_of_a_closed_form() -> None:
    stream = toy_stream("class", dtype=torch.float64)
    examination = Examination(make("analytic", stream), stream, "test")
    examination.note(0)
    assert examination.state_dict() == {}
