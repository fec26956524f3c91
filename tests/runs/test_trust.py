"""What a configuration may import: what its user names; what a file names, only if that is said to be trusted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import efc
from efc.errors import EFCError
from efc.runs.config import make_config
from efc.runs.trust import Trust
from support.planted import NAMES, Planted

WANTS = r"^[^\n]* a file of settings wants to import '.*', which may run any code; if you trust .* --trust [^\n]*$"


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Planted:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "planted", raising=False)
    return Planted(tmp_path)


def layers(name: str) -> list[dict[str, Any]]:
    """The places of a settings file where a name might stand."""
    row = {"method": "efc", "head": "least_squares", "scenario": "class", "options": {}}
    return [
        {"methods": name},
        {"methods": ["sgd", name]},
        {"methods": f"sgd, {name} ,ewc"},
        {"methods": "efc", "efc": {"preservation": name}},
        {"methods": "efc", "efc": {"variant": "paper", "preservation": name}},
        {"rows": [row | {"method": name}]},
        {"rows": [row | {"options": {"preservation": name}}]},
        {"rows": [row], "efc": {"preservation": name}},
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_layer_from_a_file_imports_nothing(planted: Planted, name: str) -> None:
    path = list(sys.path)
    for layer in layers(name):
        with pytest.raises(EFCError, match=WANTS):
            make_config(layer, trust=Trust.of({"methods": "sgd,other:Method", "dataset": name, "data_dir": name}))
    assert not planted.ran
    assert sys.path == path


@pytest.mark.parametrize("name", [name for name in NAMES if "function" in name])
@pytest.mark.parametrize("place", ["options", "assumes"])
def test_a_preset_file_imports_nothing(planted: Planted, name: str, place: str) -> None:
    file = planted.folder / "p.yaml"
    entry = {"options": {"beta": 0.1}} | {place: {"preservation": name}}
    file.write_text(yaml.safe_dump({"class": {"efc": {"least_squares": entry}}}))
    settings = {"methods": "efc", "head": "least_squares", "seeds": 1, "epochs": 1, "hidden": [4]}
    for layer in (settings | {"preset_file": str(file)}, {"preset_file": file}):
        with pytest.raises(EFCError, match=WANTS):
            make_config(settings, layer, trust=Trust.of(settings))
    with pytest.raises(EFCError, match=WANTS):
        efc.run(preset_file=str(file), **settings)
    assert not planted.ran
    assert efc.run(preset_file=str(file), trust=True, **settings)["rows"][0]["method"] == "efc"
    assert planted.ran


def test_what_a_user_names_is_imported(planted: Planted) -> None:
    typed = {"methods": "sgd, planted:Planted", "efc": {"preservation": "planted:function"}}
    file = {"rows": [{"method": "planted:Planted", "head": "analytic", "scenario": "class", "options": {}}]}
    assert Trust.of(typed).names >= {"planted:Planted", "planted:function"}
    assert [row.method for row in make_config(typed, trust=Trust.of(typed)).rows] == ["sgd", "planted:Planted"]
    assert planted.ran
    assert make_config(file, trust=Trust.of(typed)).rows == make_config(file, trust=Trust(files=True)).rows


def test_many_references_to_one_part_are_looked_at_once() -> None:
    """As a YAML file full of aliases has them."""
    part: list[Any] = ["x"]
    for _ in range(60):
        part = [part, part]
    Trust().check("options", {"a": part})
    deep: Any = "planted:Planted"
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(EFCError, match=WANTS):
        Trust().check("options", deep)
