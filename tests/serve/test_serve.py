"""What the manual says was measured is what the benchmark wrote."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def tool(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(Path(name).stem, ROOT / name)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_the_page_has_the_numbers_that_were_measured() -> None:
    serve_page, text = tool("tools/serve_page.py"), (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")
    document = json.loads((ROOT / "docs" / "results" / "serve.json").read_text(encoding="utf-8"))
    assert [*document] == ["load", "kill", "memory", "fuzz"]
    assert serve_page.page(text, document) == text


def test_a_goal_that_was_missed_is_called_so() -> None:
    goal = {"what": "answers", "goal": "< 3", "measured": "4", "met": False}
    part = {
        "goals": [goal, goal | {"met": True}],
        "cores": 2,
        "busy": 4.2,
        "priority": 0,
        "environment": {"torch": "2.6"},
    }
    measured = tool("tools/serve_page.py").measured
    text = measured({"load": part})
    assert "| answers | < 3 | 4 **(missed)** |\n| answers | < 3 | 4 |\n" in text
    assert "on two cores, while up to 4 other programs computed, with torch 2.6." in text
    assert "computed (which had to give way, for: load)," in measured({"load": part | {"priority": -15}, "kill": part})
    assert "with nothing else to do" in measured({"load": part | {"busy": 0.1}})
