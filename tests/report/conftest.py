"""Real results, shown in a real browser."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from efc.api import run
from efc.report import write_report
from support.records import typed

HOSTILE = (
    "<script>window.hacked = 1</script>",
    "\"'><img src=x onerror='window.hacked = 2'>",
    "</script><b>%{x} $a_1$ &amp; ` \\",
    "long " + "x" * 195,
)


@pytest.fixture(scope="session")
def document() -> dict[str, Any]:
    """Real results: two methods, two heads, two scenarios."""
    found = run(
        methods=["efc", "sgd"], head=["least_squares", "analytic"], scenario=["class", "domain"],
        seeds=3, epochs=1, hidden=[16],
    )  # fmt: skip
    scenarios = ["class", "domain"]  # as the page has them: the best of each scenario first
    rows = sorted(found["rows"], key=lambda row: (scenarios.index(row["scenario"]), -row["accuracy"]["mean"]))
    return found | {"rows": rows, "command": "efc run --methods efc,sgd --seeds 3 --set 'efc.beta=0.1'"}


@pytest.fixture(scope="session")
def small(document: dict[str, Any]) -> dict[str, Any]:
    """The Class-IL rows alone."""
    return document | {"rows": [row for row in document["rows"] if row["scenario"] == "class"]}


@pytest.fixture(scope="session")
def many(document: dict[str, Any]) -> dict[str, Any]:
    """500 rows: the real ones again and again, under other names and with other accuracies."""
    rows = []
    for k in range(500):
        row = copy.deepcopy(document["rows"][k % len(document["rows"])])
        row["method"] = f"{row['method']}-{k // len(document['rows'])}"
        row["accuracy"]["per_seed"] = [value * (1 - k / 1000) for value in row["accuracy"]["per_seed"]]
        rows.append(row)
    return document | {"rows": rows}


@pytest.fixture(scope="session")
def hostile(document: dict[str, Any]) -> dict[str, Any]:
    """Methods, data sets and classes with names that are markup, or very long."""
    rows = copy.deepcopy(document["rows"][: len(HOSTILE)])
    for row, name in zip(rows, HOSTILE, strict=True):
        row["method"] = name
        row["dataset"] = f"npz:{name}"
        row["tasks"] = [[f"{name}{k}" for k in range(len(task))] for task in row["tasks"]]
        row["diverged"] = [0]
        row["config"]["options"]["note"] = name
    return document | {"rows": rows, "command": f"efc run --dataset 'npz:{HOSTILE[0]}'"}


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Opens a document's report; at the end nothing may have been complained of, nor asked of the network."""
    contexts, complaints = [], []

    def complain(what: str) -> None:
        complaints.append(what)

    def requested(url: str) -> None:
        if not url.startswith(("file:", "data:", "blob:")):
            complain(f"request: {url}")

    def opened(document: dict[str, Any], width: int = 1440, scheme: str = "light") -> Any:
        path = write_report(tmp_path, typed(document))
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)  # a loaded machine is slow
        page.on("console", lambda message: complain(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complain(str(error)))
        page.on("request", lambda request: requested(request.url))
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
