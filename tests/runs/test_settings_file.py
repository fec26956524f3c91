"""Settings that a user writes: plain values are read, everything else is one sentence, and soon."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
import yaml

from efc.errors import EFCError
from efc.runs.config import make_config
from efc.runs.settings_file import Plain, load_yaml, parse
from support.mutate import mutations

COUNT = int(os.environ.get("EFC_FUZZ", "300"))
BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]\n" for k in range(1, 40))
MERGED = "a0: &a0 {x: 1}\n" + "".join(f"a{k}: &a{k}\n  <<: [*a{k - 1}, *a{k - 1}]\n" for k in range(1, 60))


def test_plain_values_are_what_they_look_like() -> None:
    assert parse("[1, -0x10, 1e-3, inf, .5, on, ~, 2026-01-02, 'x']") == [1, -16, 1e-3, float("inf"), 0.5, True, None,
                                                                          "2026-01-02", "x"]  # fmt: skip
    assert parse("100000000000000000000000") == 1e23
    assert parse("2026-13-45") == "2026-13-45"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (BOMB, "an alias"),
        (MERGED, "an alias"),
        ("a: &a [*a]", "an alias"),
        ("[" * 100_000, "more than 20 levels deep"),
        ("{a: " * 100_000, "more than 20 levels deep"),
        ("- " * 5000, "more than 20 levels deep"),
        ("a: " + "9" * 5000, "a number of 5000 digits"),
        ("a: 0x" + "f" * 5000, "a number of 5002 digits"),
        ("a: 1" + "0" * 350, "too large"),
        ("a: !!python/object/apply:os.system [touch x]", "not valid YAML"),
        ("a: !!binary aGk=", "of the kind tag:yaml.org,2002:binary"),
        ("a: !!set {x}", "of the kind"),
        ("a: !!int x", "not valid YAML"),
        ("a: !!float x", "not valid YAML"),
        ("{[1]: 2}", "not valid YAML"),
        ("a: 'x", "not valid YAML"),
        ("a: \x07", "not valid YAML"),
        ("1: 2", "expected named settings"),
        ("[1, 2]", "expected named settings"),
        ("a" * 1_000_001, "larger than 1,000,000 bytes"),
    ],
    ids=range(20),
)
def test_what_is_not_is_one_sentence(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    with pytest.raises(EFCError, match=says) as refused:
        load_yaml(file)
    assert str(refused.value).startswith(f"--config: {file}") or str(refused.value).startswith(f"--config {file}")
    assert "\n" not in str(refused.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"dataset: caf\xe9\n")
    with pytest.raises(EFCError, match="'utf-8' codec can't decode byte 0xe9"):
        load_yaml(tmp_path / "latin.yaml")
    with pytest.raises(EFCError, match="Is a directory"):
        load_yaml(tmp_path, "--preset")
    with pytest.raises(EFCError, match="No such file"):
        load_yaml(tmp_path / "nothing")
    (tmp_path / "empty.yaml").write_text("")
    assert load_yaml(tmp_path / "empty.yaml") == {}


def test_what_is_written_has_no_aliases() -> None:
    shared = [1, 2]
    text = yaml.dump({"a": shared, "b": shared}, Dumper=Plain)
    assert parse(text) == {"a": [1, 2], "b": [1, 2]}


def test_a_saved_configuration_is_read_back() -> None:
    config = make_config({"methods": "efc,ewc", "seeds": 2, "ewc": {"strength": float("inf")}})
    found = parse(config.to_yaml())
    assert isinstance(found, dict)
    assert make_config(found) == config


def test_mutated_settings_give_a_configuration_or_a_sentence(tmp_path: Path) -> None:
    """Bytes of a real configuration and of a hand-written one changed at random; nothing else than EFCError leaves."""
    saved = make_config({"methods": "sgd", "seeds": 2}).to_yaml()
    short = "seeds: 2\nepochs: 1\nhidden: [8, 8]\nmethods: [efc, sgd]\nefc: {lr: 1e-3, solver_options: {tol: 0.1}}\n"
    file, rng = tmp_path / "c.yaml", random.Random(0)
    sentences = []
    for text in (saved, short):
        for damaged in mutations(text.encode(), rng, COUNT // 2):
            file.write_bytes(damaged)
            try:
                make_config(load_yaml(file))
            except EFCError as mistake:
                sentences.append(str(mistake))
    assert len(sentences) > COUNT / 10
    assert max(map(len, sentences)) < 2000


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"methods": {"a": 1}}, "methods: expected names"),
        ({"methods": [None]}, "methods: unknown value"),
        ({"rows": "x"}, r"rows\[0\]: expected the keys"),
        ({"rows": [{"method": "sgd", "head": [1], "scenario": "class", "options": {}}]}, "head"),
        ({"dataset": ["digits"]}, "dataset: expected a name"),
        ({"encoder": {"a": 1}}, "encoder"),
        ({"preset_file": ["x"]}, "--preset: cannot read"),
        ({"hidden": {"a": 1}}, "hidden: expected layer widths"),
        ({"tasks": [3]}, "tasks: must be a whole number"),
        ({"validation": "x"}, "validation: must be"),
        ({"validation": True}, "validation: must be"),
        ({"device": None}, "device: expected"),
        ({"data_dir": 3}, "data_dir: expected a name"),
        ({"solver": [1]}, "solver"),
        ({"activation": None}, "activation"),
        ({"efc": {"lr": {"a": 1}}}, "efc.lr: expected a number"),
        ({"efc": {"lr": 10**400}}, "efc.lr: the number is too large"),
        ({"efc": {"solver_options": {"tol": "x"}}}, "solver.tol: expected a number"),
        ({"efc": {"solver_options": {"max_steps": 1e3}}}, "solver.max_steps: expected a whole number"),
    ],
)
def test_values_of_the_wrong_kind(settings: dict[str, object], says: str) -> None:
    with pytest.raises(EFCError, match=says):
        make_config(settings)
