"""The figures for Prometheus: they parse, and say what happened."""

from __future__ import annotations

import re
from pathlib import Path

from efc.serve.metrics import BOUNDS, Traffic, exposition
from support.serving import samples, serving

LINE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)*)\})? (-?[0-9.e+-]+)')


def parsed(text: str) -> dict[tuple[str, str], float]:
    """By name and labels; every name is described before it is used."""
    found: dict[tuple[str, str], float] = {}
    kinds: dict[str, str] = {}
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in kinds
            kinds[name] = kind
        elif not line.startswith("# HELP "):
            match = LINE.fullmatch(line)
            assert match, line
            name = match[1]
            base = re.sub("_(bucket|sum|count)$", "", name)
            assert name in kinds or kinds.get(base) == "histogram", line
            assert (name, match[2] or "") not in found, line
            found[name, match[2] or ""] = float(match[3])
    return found


def test_a_service_tells_what_happened(tmp_path: Path) -> None:
    with serving(tmp_path / "m.safetensors", "--beside", "sgd") as served:
        x, y = samples(60)
        served.learn(x[:30], y[:30])
        served.learn(x[30:], y[30:])
        for _ in range(5):
            served.ask("/predict", {"input": x[0]})
        served.ask("/predict", {"input": [1]})
        served.ask("/wp-admin")
        found, state = parsed(served.get("/metrics").decode()), served.get("/state")
    assert found["efc_samples_total", ""] == 60
    assert found["efc_batches_total", ""] == 2
    assert found["efc_classes", ""] == 3
    assert found["efc_up", ""] == 1
    assert found["efc_requests_total", 'path="/predict",status="200"'] == 5
    assert found["efc_requests_total", 'path="/predict",status="400"'] == 1
    assert found["efc_requests_total", 'path="other",status="404"'] == 1
    assert found["efc_request_seconds_bucket", 'path="/predict",le="+Inf"'] == 6
    assert 0 <= found["efc_prequential_accuracy", 'method="sgd",window="all"'] <= 1
    for learner in (state, state["beside"]):
        for one in learner["classes"]:
            labels = f'method="{learner["method"]}",label="{one["label"]}"'
            assert found["efc_class_accuracy", labels] == one["accuracy"]
    assert sum(found["efc_class_samples_total", f'label="{label}"'] for label in range(3)) == 60
    assert ("efc_findings_total", 'kind="cut"') not in found
    assert found["efc_process_bytes", ""] > 2**20


def test_times_are_counted_up() -> None:
    traffic = Traffic()
    for seconds in (0.0005, 0.003, 0.003, 99.0):
        traffic.count("GET", "/state", 200, seconds)
    state = {
        "seen": 1, "sequence": 1, "errors": {"batches": 0}, "queued": 0, "classes": [], "broken": None, "uptime": 1.0,
        "journal": {"bytes": 1, "since_snapshot": 0}, "memory": {"state_bytes": 1, "process_bytes": None},
        "method": 'a"b\\c\nd', "prequential": {"all": 0.5, "recent": None}, "effort": None,
        "findings": [{"kind": "cut", "text": "half of it", "batches": 3, "sequence": 9, "seen": 40}],
    }  # fmt: skip
    state["beside"] = state | {"classes": []}  # the same method: nothing is told twice
    found = parsed(exposition(state, traffic))
    counts = [found["efc_request_seconds_bucket", f'path="/state",le="{bound}"'] for bound in (*BOUNDS, "+Inf")]
    assert counts == [1, 1, *[3] * (len(BOUNDS) - 2), 4]
    assert found["efc_request_seconds_sum", 'path="/state"'] == 99.0065
    assert ("efc_prequential_accuracy", 'method="a\\"b\\\\c\\nd",window="all"') in found
    assert found["efc_findings_total", 'kind="cut"'] == 3
