"""Figures for Prometheus: what the service does, as text."""

from __future__ import annotations

from collections.abc import Iterator

from efc.serve.samples import Document

KNOWN = ("/predict", "/learn", "/state", "/history", "/snapshot", "/metrics", "/demo/lesson")
"""Addresses with figures of their own; all others are one."""
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Upper ends of the times that are counted, in seconds."""


class Traffic:
    """Requests by address and status, and how long they took."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, int], int] = {}
        self.times: dict[str, list[int]] = {}
        self.seconds: dict[str, float] = {}

    def count(self, method: str, path: str, status: int, seconds: float) -> None:
        """A request that was answered."""
        address = path if path in KNOWN else "other"
        self.requests[address, status] = self.requests.get((address, status), 0) + 1
        times = self.times.setdefault(address, [0] * (len(BOUNDS) + 1))
        times[next((k for k, bound in enumerate(BOUNDS) if seconds <= bound), len(BOUNDS))] += 1
        self.seconds[address] = self.seconds.get(address, 0.0) + seconds


def exposition(state: Document, traffic: Traffic) -> str:
    """The text format of Prometheus, version 0.0.4."""
    return "\n".join([*_state(state), *_traffic(traffic), ""])


def _state(state: Document) -> Iterator[str]:
    yield from _one("efc_samples_total", "counter", "Samples learned.", state["seen"])
    yield from _one("efc_batches_total", "counter", "Batches learned or skipped.", state["sequence"])
    yield from _one(
        "efc_failed_batches_total", "counter", "Batches that could not be learned.", state["errors"]["batches"]
    )
    yield from _one("efc_queued_samples", "gauge", "Samples accepted and not yet learned.", state["queued"])
    yield from _one("efc_classes", "gauge", "Classes met.", len(state["classes"]))
    yield from _one("efc_up", "gauge", "1 while samples are accepted.", int(state["broken"] is None))
    yield from _one("efc_journal_bytes", "gauge", "Bytes of the journal.", state["journal"]["bytes"])
    yield from _one(
        "efc_batches_since_snapshot", "gauge", "Batches that only the journal has.", state["journal"]["since_snapshot"]
    )
    yield from _one("efc_state_bytes", "gauge", "Bytes that the learners keep.", state["memory"]["state_bytes"])
    yield from _one("efc_process_bytes", "gauge", "Memory of the process.", state["memory"]["process_bytes"])
    yield from _one("efc_uptime_seconds", "gauge", "Seconds since the start.", state["uptime"])
    learners = list({one["method"]: one for one in (state.get("beside", state), state)}.values())[::-1]
    yield from _head("efc_prequential_accuracy", "gauge", "Share answered rightly before it was learned.")
    for learner in learners:
        for window, value in learner["prequential"].items():
            yield from _value("efc_prequential_accuracy", value, method=learner["method"], window=window)
    yield from _head("efc_class_accuracy", "gauge", "The same, of the last samples of each class.")
    for learner in learners:
        for one in learner["classes"]:
            yield from _value("efc_class_accuracy", one["accuracy"], method=learner["method"], label=one["label"])
    yield from _head("efc_class_samples_total", "counter", "Samples learned of each class.")
    for one in state["classes"]:
        yield from _value("efc_class_samples_total", one["count"], label=one["label"])
    yield from _head("efc_findings_total", "counter", "Batches that something looks wrong with.")
    for one in state["findings"]:
        yield from _value("efc_findings_total", one["batches"], kind=one["kind"])
    if state["effort"] is not None:
        yield from _head("efc_effort", "gauge", "Mean norm of the control (psi) and preservation (gamma) signals.")
        for signal, layers in state["effort"].items():
            for layer, value in enumerate(layers, 1):
                yield from _value("efc_effort", value, signal=signal, layer=layer)


def _traffic(traffic: Traffic) -> Iterator[str]:
    yield from _head("efc_requests_total", "counter", "Requests answered.")
    for (address, status), number in sorted(traffic.requests.items()):
        yield from _value("efc_requests_total", number, path=address, status=status)
    yield from _head("efc_request_seconds", "histogram", "Time from a request's head to the end of its answer.")
    for address, times in sorted(traffic.times.items()):
        total = 0
        for bound, number in zip((*map(str, BOUNDS), "+Inf"), times, strict=True):
            total += number
            yield f'efc_request_seconds_bucket{{path="{address}",le="{bound}"}} {total}'
        yield f'efc_request_seconds_sum{{path="{address}"}} {traffic.seconds[address]:.6f}'
        yield f'efc_request_seconds_count{{path="{address}"}} {total}'


def _head(name: str, kind: str, purpose: str) -> Iterator[str]:
    yield f"# HELP {name} {purpose}"
    yield f"# TYPE {name} {kind}"


def _one(name: str, kind: str, purpose: str, value: float | None) -> Iterator[str]:
    if value is not None:
        yield from _head(name, kind, purpose)
        yield f"{name} {value}"


def _value(name: str, value: float | None, **labels: object) -> Iterator[str]:
    """A line, if there is a value."""
    if value is not None:
        told = ",".join(f'{label}="{_text(str(of))}"' for label, of in labels.items())
        yield f"{name}{{{told}}} {value}"


def _text(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
