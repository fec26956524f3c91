"""Any regulariser becomes a preservation signal: here, a pull towards the weights at the end of the last task."""

from efc import learners, streams, training
from efc.core import Parameters


class StayNear:
    """``R = 1/2 |theta - theta*|^2``, so dR/dW = W - W*; without importances, every weight counts the same."""

    def __init__(self) -> None:
        self.anchor: Parameters | None = None

    def remember(self, theta: Parameters) -> None:
        self.anchor = Parameters(tuple(W.clone() for W in theta.weights), tuple(b.clone() for b in theta.biases))

    def __call__(self, theta: Parameters) -> Parameters:
        anchor = theta if self.anchor is None else self.anchor
        return Parameters(
            tuple(W - A for W, A in zip(theta.weights, anchor.weights, strict=True)),
            tuple(b - A for b, A in zip(theta.biases, anchor.biases, strict=True)),
        )


class EFCStayNear(learners.EFC):
    """EFC whose memory is the last task's weights alone."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        self.near = StayNear()
        super().__init__(*args, preservation=self.near, **kwargs)

    def consolidate(self, task: learners.TaskData) -> None:
        self.near.remember(self.layers)


stream = streams.split(streams.load("digits"), tasks=5, classes_per_task=2, scenario="class")
for beta in (0.0, 0.01, 0.1):
    # The signal alone, as it is: no remembered activity beside it, and beta not in units of the learning signal.
    options = learners.EFCOptions(lr=3e-4, pull=0.0, beta=beta, normalise="none")
    result = training.train(EFCStayNear((64, 100, 100, 10), range(3), options), stream, epochs=5)
    print(f"beta {beta}: {result.accuracy_matrix[:, -1].mean():.1f} % after the last task")
