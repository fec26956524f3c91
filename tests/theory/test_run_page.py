"""docs/theory.md: its tables are what the program wrote, and every verdict and figure follows from the numbers kept."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from efc.theory.experiments import EXPERIMENTS
from efc.theory.run import beside, markdown

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "theory.md").read_text(encoding="utf-8")


def kept(name: str) -> dict[str, Any]:
    file = DOCS / "theory" / name
    documents = json.loads(file.read_text("utf-8")) if file.exists() else []
    return {document["experiment"]: document for document in documents}


FOUND, LARGE = kept("theory.json"), kept("theory-mnist.json")
"""The small network on the embedded digits; the paper's on MNIST, where it has been measured."""
NETWORKS = [pytest.param(FOUND, id="digits"), *([pytest.param(LARGE, id="mnist")] if LARGE else [])]
SECTIONS = {part.split("](theory/")[1].split(".png")[0]: part for part in PAGE.split("\n## ") if "](theory/" in part}
"""The text on every experiment, by the name of its figure."""


def test_the_table_is_what_was_written() -> None:
    assert markdown(list(FOUND.values())) in PAGE
    assert not LARGE or beside(list(FOUND.values()), list(LARGE.values())) in PAGE


@pytest.mark.parametrize("network", NETWORKS)
def test_nothing_is_missing(network: dict[str, Any]) -> None:
    assert list(network) == list(EXPERIMENTS)
    scales = [document["scale"] | {"most_seeds": None} for document in network.values()]  # of `forgetting` alone
    assert all(scale == scales[0] for scale in scales)
    assert scales[0]["seeds"] >= 3
    assert scales[0]["hidden"] == ([16, 16] if network is FOUND else [64, 64])
    for document in network.values():
        assert document["peak_memory_GiB"] < 6
        assert document["claims"]


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("network", NETWORKS)
def test_every_verdict_follows_from_the_numbers(network: dict[str, Any], name: str) -> None:
    """Judged anew from the per-seed numbers of the repository: the same verdicts, the same figures."""
    document = network[name]
    assert [asdict(claim) for claim in EXPERIMENTS[name].judge(document["numbers"])] == document["claims"]


def figures(text: str) -> set[str]:
    """The numbers in a text, as they are written; not in code, links, references or headings."""
    text = re.sub(r"`[^`]*`|!?\[[^]]*\]\([^)]*\)|<!--.*?-->", " ", text, flags=re.S)
    text = re.sub(r"^.*\n", "", text, count=1)
    return set(re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?", text))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_figure_of_the_prose_was_measured(name: str) -> None:
    """Each stands in a claim of its experiment, and these follow from the numbers."""
    assert figures(SECTIONS[name]) - measured(FOUND[name]) == set()


def measured(document: dict[str, Any]) -> set[str]:
    said = " ".join(" ".join(claim.values()) for claim in document["claims"])
    return set(re.findall(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?", said))


def test_two_networks_beside_each_other() -> None:
    def document(verdict: str, *statements: str) -> dict[str, Any]:
        claims = [{"statement": s, "paper": "", "measured": "|x|", "verdict": verdict} for s in statements]
        return {"experiment": "bounds", "claims": claims}

    assert beside([document("holds", "a", "b")], [document("does not hold", "a")]).splitlines()[2:] == [
        "| bounds | a | holds | **does not hold** | \\|x\\| |",
        "| bounds | b | holds | **-** | - |",
    ]
    assert "**" not in beside([document("holds", "a")], [document("holds", "a")])


@pytest.mark.skipif(not LARGE, reason="the paper's network has not been measured")
def test_every_figure_of_the_comparison_was_measured() -> None:
    """On one of the two networks; the table itself is checked above, and how many verdicts differ is counted here."""
    text = re.sub(r"<!-- table of both -->.*<!-- end of table of both -->", "", PAGE.split("\n## 13.")[1], flags=re.S)
    verdicts = [
        [{claim["statement"]: claim["verdict"] for claim in network[name]["claims"]} for network in (FOUND, LARGE)]
        for name in EXPERIMENTS
    ]
    pairs = [(one[key], other.get(key)) for one, other in verdicts for key in one]
    counts = {str(len(pairs)), str(sum(one != other for one, other in pairs))}
    known = set().union(*(measured(document) for network in (FOUND, LARGE) for document in network.values()))
    assert counts <= figures("\n" + text)
    assert figures("\n" + text) - counts - known == set()


def test_the_check_of_the_prose_can_tell() -> None:
    assert figures("1. Title\nIt is 0.38, four times 90 %; `x1 = 3` and [2](a3.md), beta 1e-4.") == {
        "0.38",
        "90",
        "1e-4",
    }


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_its_figure(name: str) -> None:
    assert f"](theory/{name}.png)" in PAGE
    assert (DOCS / "theory" / f"{name}.png").stat().st_size < 200_000
