"""What a smaller head knew, in a larger one: the same answers, and nothing known of the new outputs."""

from __future__ import annotations

import torch

from efc.classifiers.carry import carry, lasting_state, take_over
from efc.core.network import Layout
from efc.learners import EWC, EWCOptions
from efc.streams import split
from efc.training.loop import train
from support.tasks import toy_dataset

SMALL, LARGE = Layout((3, 2, 2)), Layout((3, 2, 4))


def test_parameters_keep_their_places_and_new_outputs_stay_as_drawn() -> None:
    old = torch.arange(float(SMALL.n_parameters)).unsqueeze(0)
    fresh = -torch.ones(1, LARGE.n_parameters)
    layers, before = LARGE.views(carry(old, fresh, SMALL, LARGE)), SMALL.views(old)
    assert torch.equal(layers.weights[0], before.weights[0])
    assert torch.equal(layers.biases[0], before.biases[0])
    assert torch.equal(layers.weights[1][:, :2], before.weights[1])
    assert torch.equal(layers.biases[1][:, :2], before.biases[1])
    assert (layers.weights[1][:, 2:] == -1).all()
    assert (layers.biases[1][:, 2:] == -1).all()


def test_a_tensor_with_an_output_axis_grows_along_it_and_others_stay() -> None:
    moments = torch.ones(1, 5, 2)
    grown = carry(moments, torch.zeros(1, 5, 4), SMALL, LARGE)
    assert grown.shape == (1, 5, 4)
    assert torch.equal(grown[..., :2], moments)
    assert not grown[..., 2:].any()
    other = torch.ones(1, 7)
    assert carry(other, torch.zeros(1, 7), SMALL, LARGE) is other
    assert carry(moments, torch.zeros(1, 5, 2), SMALL, SMALL) is moments


def test_a_learner_that_takes_over_answers_as_the_one_before() -> None:
    stream = split(toy_dataset(), tasks=2, classes_per_task=2)
    small = EWC((6, 8, 7, 4), [0, 1], EWCOptions(lr=1e-2, strength=10.0))
    train(small, stream, epochs=2, batch_size=8)
    large = EWC((6, 8, 7, 6), [0, 1], EWCOptions(lr=1e-2, strength=10.0))
    drawn = large.theta.clone()
    take_over(large, lasting_state(small), 4)
    x = stream.tasks[0].parts["test"].x
    torch.testing.assert_close(large.logits(x, slice(0, 4)), small.logits(x, slice(0, 4)))
    assert torch.equal(large.layers.weights[-1][:, 4:], large.layout.views(drawn).weights[-1][:, 4:])
    assert not [key for key in lasting_state(small) if key.startswith("optimiser.")]
