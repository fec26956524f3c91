"""The forward pass of a trained classifier as an ONNX file, for any runtime: inputs as measured, outputs by class."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from efc.classifiers.estimators import ContinualClassifier, EFCClassifier
from efc.classifiers.torch_head import EFCHead
from efc.errors import EFCError, MissingError
from efc.files import write_atomically
from efc.learners import GradientLearner
from efc.learners.inputs import LIMIT

if TYPE_CHECKING:
    import onnx

OPSET = 17
ACTIVATIONS = {"relu": "Relu", "softplus": "Softplus", "tanh": "Tanh", "sigmoid": "Sigmoid"}
Array = npt.NDArray[np.generic]


def export(trained: EFCClassifier | ContinualClassifier | EFCHead, path: Path | str) -> Path:
    """Write ``inputs`` (N, n_features) -> ``logits`` (N, classes), float32, columns as in ``classes_`` (``classes``).

    Computed in double precision inside, where large offsets would eat the digits. The metadata's ``classes`` names the
    columns, one a line. A method of one's own that changes what is computed at test cannot be exported.
    """
    try:
        import onnx
    except ImportError:
        raise MissingError("export", "onnx", "onnx") from None
    graph = _Graph(*_learned(trained))
    model = onnx.helper.make_model(
        graph.made(), opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=8, producer_name="efc"
    )
    onnx.helper.set_model_props(model, {"classes": "\n".join(graph.classes)})
    onnx.checker.check_model(model, full_check=True)
    target = Path(path)
    write_atomically(target, model.SerializeToString())
    return target


def _learned(trained: EFCClassifier | ContinualClassifier | EFCHead) -> tuple[GradientLearner, list[str], list[int]]:
    """The learner, the names of its classes, and the output of each."""
    growing = trained.growing if isinstance(trained, EFCHead) else getattr(trained, "model_", None)
    learner = None if growing is None else growing.learner
    if learner is None:
        raise EFCError("export: nothing has been learned yet")
    if not isinstance(learner, GradientLearner) or type(learner).logits is not GradientLearner.logits:
        raise EFCError(f"export: {learner.name} computes its outputs in a way of its own; export knows networks alone")
    if getattr(learner.head_policy, "quadratic", None) is not None:
        raise EFCError("export: the head 'gaussian' compares squares of the features; export knows linear heads alone")
    if isinstance(trained, EFCHead):
        return learner, [str(label) for label in trained.classes], list(range(len(trained.classes)))
    met = trained._met.tolist()
    shown = [label for label in trained.classes_.tolist() if label in met]
    return learner, [str(label) for label in shown], [met.index(label) for label in shown]


class _Graph:
    """The nodes of the forward pass: standardise, layers, what the head reads beside, columns in the right order."""

    def __init__(self, learner: GradientLearner, classes: list[str], order: list[int]) -> None:
        import onnx

        self.onnx, self.learner, self.classes, self.order = onnx, learner, classes, order
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def made(self) -> onnx.GraphProto:
        helper, kind, learner = self.onnx.helper, self.onnx.TensorProto, self.learner
        x = self.node("Cast", "inputs", to=kind.DOUBLE)
        if learner.scaled:
            mean, deviation = (np.array(getattr(learner.options, f"input_{name}")) for name in ("mean", "deviation"))
            x = self.node("Div", self.node("Sub", x, self.constant(mean)), self.constant(deviation))
        if learner.inputs is not None:
            centred = self.node("Sub", x, self.constant(learner.inputs.mean.double().cpu().numpy()))
            units = self.node("Div", centred, self.constant(learner.inputs.scale.double().cpu().numpy()))
            x = self.node("Clip", units, self.constant(np.array(-LIMIT)), self.constant(np.array(LIMIT)))
        h, theta = x, learner.layers
        for i, (W, b) in enumerate(zip(theta.weights, theta.biases, strict=True)):
            last = i == len(theta.weights) - 1
            rows = self.order if last else slice(None)
            h = self.affine(h, W[0].double().cpu().numpy()[rows], b[0].double().cpu().numpy()[rows])
            h = h if last else self.rate(h)
        h = self.beside(x, h)
        self.nodes.append(helper.make_node("Cast", [h], ["logits"], to=kind.FLOAT))
        given = helper.make_tensor_value_info("inputs", kind.FLOAT, ["N", learner.layout.sizes[0]])
        result = helper.make_tensor_value_info("logits", kind.FLOAT, ["N", len(self.order)])
        graph: onnx.GraphProto = helper.make_graph(self.nodes, "efc", [given], [result], self.constants)
        return graph

    def beside(self, x: str, h: str) -> str:
        """What the head adds straight from the inputs, read off by what it makes of unit vectors: it is linear."""
        import torch

        d, outputs = self.learner.layout.sizes[0], slice(0, int(self.learner.layout.sizes[-1]))
        units = torch.eye(d, dtype=torch.float64, device=self.learner.theta.device)[None]
        read = self.learner.head_policy.beside(units, outputs)
        if read is None:
            return h
        weights = read[0].cpu().numpy()[:, self.order]
        return self.node("Add", h, self.node("MatMul", x, self.constant(weights)))

    def affine(self, h: str, W: Array, b: Array) -> str:
        return self.node("Add", self.node("MatMul", h, self.constant(W.T)), self.constant(b))

    def rate(self, a: str) -> str:
        """The activation function; runtimes have the softplus in single precision alone."""
        kind, name = self.onnx.TensorProto, self.learner.sigma.name
        if name != "softplus":
            return self.node(ACTIVATIONS[name], a)
        return self.node("Cast", self.node(ACTIVATIONS[name], self.node("Cast", a, to=kind.FLOAT)), to=kind.DOUBLE)

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """A node; returns the name of its output."""
        name = f"t{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, value: Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name
