"""A user's own class by name: found in the working folder, refused with one clear sentence."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import efc
from efc.errors import EFCError
from efc.learners import SGD, find_learner
from efc.plugins import load_object
from efc.runs.config import make_config
from efc.runs.trust import Trust

OWN = """
from efc.learners import SGD, Options
class Mine(SGD):
    shipped_head = "analytic"
class Taken(SGD):
    name = "ewc"
number = 3
"""
INCOMPLETE = """
from efc.learners import GradientLearner, Learner
class Half(GradientLearner):
    pass
class Nothing(Learner):
    pass
class Descends(Learner):
    def descent(self, x, y):
        return {}
class DescendsAndRemembers(Descends):
    def consolidate(self, task):
        pass
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("own_module", "broken", "incomplete"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "own_module.py").write_text(OWN)
    (tmp_path / "broken.py").write_text("import nothing_of_the_kind\n")
    (tmp_path / "incomplete.py").write_text(INCOMPLETE)
    return tmp_path


@pytest.mark.parametrize("spec", ["own_module:Mine", "own_module.py:Mine"])
def test_found_by_module_and_by_file(here: Path, spec: str) -> None:
    cls = find_learner(spec)
    assert issubclass(cls, SGD)
    assert cls.name == "mine"
    assert find_learner(spec) is cls


def test_runs_with_its_own_section_and_comes_back_from_its_configuration(here: Path) -> None:
    settings = {"methods": "own_module:Mine,sgd", "seeds": 1, "epochs": 1, "hidden": [8], "mine": {"lr": 0.02}}
    document = efc.run(**settings)
    first = document["rows"][0]
    assert (first["method"], first["head"]) == ("mine", "analytic")
    assert first["config"]["options"]["lr"] == 0.02
    config = make_config(settings, trust=Trust.of(settings))
    assert config.rows[0].method == "own_module:Mine"
    import yaml

    assert make_config(yaml.safe_load(config.to_yaml()), trust=Trust(files=True)) == config


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("nowhere_at_all:Mine", "methods: there is no module or file 'nowhere_at_all'"),
        ("nowhere.py:Mine", "methods: there is no module or file 'nowhere.py'"),
        ("own_module:Mien", r"methods: own_module has no 'Mien' \(did you mean 'Mine'\?\)"),
        ("own_module:number", "methods: own_module:number is not a subclass of efc.learners.Learner"),
        ("own_module:Taken", "methods: own_module:Taken calls itself 'ewc', which is taken"),
        ("broken:Mine", "methods: broken cannot be imported: ModuleNotFoundError: .*nothing_of_the_kind"),
        ("incomplete:Half", "methods: incomplete:Half lacks the method descent"),
        ("incomplete:Nothing", "methods: incomplete:Nothing lacks the method consolidate"),
        ("incomplete:Descends", r"methods: incomplete:Descends has a `descent`; .* efc\.learners\.GradientLearner$"),
        ("incomplete:DescendsAndRemembers", r"derives from efc\.learners\.GradientLearner$"),
        ("own_module:", "methods: expected module:Name or file.py:Name"),
    ],
)
def test_mistakes_are_one_sentence(here: Path, spec: str, says: str) -> None:
    with pytest.raises(EFCError, match=says) as caught:
        find_learner(spec)
    assert "\n" not in str(caught.value)


def test_functions_load_alike(here: Path) -> None:
    assert load_object("preservation", "own_module:number") == 3
