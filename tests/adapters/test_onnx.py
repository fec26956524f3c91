"""The exported forward pass, in another runtime: the same outputs, whatever the network is made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from efc import ContinualClassifier, EFCClassifier, EFCHead
from efc.adapters.onnx import export
from efc.errors import EFCError

pytest.importorskip("onnx", reason="onnx is not installed (extra: onnx)")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (extra: onnx)")
RNG = np.random.default_rng(0)
Y = np.arange(160) % 4
X = (3 * np.eye(4)[Y] @ RNG.standard_normal((4, 6)) + RNG.standard_normal((160, 6))) * [1, 1, 50, 1, 0.01, 1] + 20


def outputs(file: Path, x: np.ndarray) -> np.ndarray:
    session = runtime.InferenceSession(file.read_bytes(), providers=["CPUExecutionProvider"])
    return session.run(["logits"], {"inputs": x.astype(np.float32)})[0]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"standardise": False, "activation": "softplus", "hidden_layer_sizes": (16, 8)},
        {"head": "least_squares", "activation": "sigmoid"},
        {"method": "ewc", "activation": "tanh", "head": "analytic"},
        {"standardise": False, "options": {"inputs": "scaled", "input_mean": 20.0, "input_deviation": 9.0}},
    ],
    ids=str,
)
def test_equal_to_the_classifier(options: dict[str, object], tmp_path: Path) -> None:
    given = {"hidden_layer_sizes": 16, "epochs": 2, "random_state": 0} | options
    classifier = (ContinualClassifier if "method" in given else EFCClassifier)(**given)
    x = X.astype(np.float32).astype(float)
    for labels in ((3, 1), (0, 2)):  # columns have to be sorted
        chosen = np.isin(Y, labels)
        classifier.partial_fit(x[chosen], Y[chosen], classes=[0, 1, 2, 3, 4] if 3 in labels else None)
    expected = classifier.decision_function(x)
    found = outputs(export(classifier, tmp_path / "m.onnx"), x)
    assert found.shape == (160, 4)  # class 4 was announced, not met
    np.testing.assert_allclose(found, expected[:, :4], rtol=1e-5, atol=1e-5)
    session = runtime.InferenceSession((tmp_path / "m.onnx").read_bytes())
    assert session.get_modelmeta().custom_metadata_map == {"classes": "0\n1\n2\n3"}
    far = outputs(tmp_path / "m.onnx", x[:2] + 1e6)  # beyond the limit of the standardised inputs, if there is one
    np.testing.assert_allclose(
        far, classifier.model_.exact_logits(torch.tensor(x[:2] + 1e6))[:, [2, 0, 3, 1]], rtol=1e-4
    )


def test_the_torch_head_and_what_cannot_be_exported(tmp_path: Path) -> None:
    head = EFCHead(6, hidden=[16], epochs=2)
    with pytest.raises(EFCError, match="nothing has been learned"):
        export(head, tmp_path / "h.onnx")
    x = torch.tensor(X, dtype=torch.float32)
    head.learn_task((x, torch.tensor(Y)))
    found = outputs(export(head, tmp_path / "h.onnx"), X)
    np.testing.assert_allclose(found, head(x).numpy(), rtol=1e-4, atol=1e-4)  # in single precision there
    ridge = ContinualClassifier("analytic", random_state=0).fit(X, Y)
    with pytest.raises(EFCError, match="analytic computes its outputs in a way of its own"):
        export(ridge, tmp_path / "r.onnx")
    ring = np.vstack([RNG.standard_normal((150, 6)) * scale for scale in (1.0, 2.0)])
    quadratic = EFCClassifier((4,), head="gaussian", epochs=1, random_state=0).fit(ring, np.arange(300) // 150)
    with pytest.raises(EFCError, match="the head 'gaussian' compares squares"):
        export(quadratic, tmp_path / "r.onnx")
    assert not (tmp_path / "r.onnx").exists()
