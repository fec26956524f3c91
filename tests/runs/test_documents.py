"""`results.json` and `config.yaml`, damaged in every way: one sentence that names the file, and no bad advice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from efc.errors import EFCError
from efc.files import to_json
from efc.report.folder import write_results
from efc.runs.config import make_config
from efc.runs.documents import check_folder, read_results_file, results_text, write_config
from efc.runs.results import MEASURES, ResultRow, Results, RunResult
from support.records import a_result, a_run

SETTINGS = make_config({"methods": "sgd"}).to_yaml()
OTHERS = make_config({"methods": "ewc"}).to_yaml()


def a_document() -> Results:
    runs = [a_run(k) for k in range(2)]
    results = [a_result(metrics=dict.fromkeys(MEASURES, 10.0 + k)) for k in range(2)]
    return Results([ResultRow.of([run.settings.to_json() for run in runs], [run.id for run in runs], results)])


def changed(**changes: object) -> str:
    """A document without a checksum, its row with other values."""
    document = json.loads(to_json(a_document().to_json()))
    document["rows"][0] |= changes
    return json.dumps(document)


RESULTS: dict[str, tuple[bytes | str | None, str]] = {
    "a folder": (None, ": Is a directory"),
    "nothing": ("", "it is not JSON"),
    "not JSON": ("{rows", "it is not JSON"),
    "not UTF-8": (b"\xff\xfe{}", "it is not UTF-8"),
    "deeply nested": ("[" * 100_000, "it is nested too deeply"),
    "a list": ("[]", "expected names with values, got list"),
    "no rows": ('{"rows": []}', "it has no rows"),
    "other rows": ('{"rows": [1]}', "expected names with values, got 1"),
    "rows as text": ('{"rows": "many"}', "expected a list, got 'many'"),
    "a missing name": ('{"rows": [{}]}', "'seeds' is missing"),
    "not a number": (changed(seconds=1).replace('"seconds": 1', '"seconds": NaN'), "NaN is no number"),
    "an endless number": (changed(seconds=1).replace('"seconds": 1', '"seconds": 1e999'), "got inf"),
    "more than all": (changed(accuracy={"mean": 10, "std": 1, "per_seed": [10, 110]}), "110 is impossible"),
    "fewer seeds": (changed(accuracy={"mean": 10, "std": 1, "per_seed": [10]}), "a value for each of 2 seeds, got 1"),
    "a torn matrix": (changed(accuracy_matrix=[[[1.0], [2.0, 3.0]]] * 2), "expected a list of 2 numbers"),
    "negative counts": (changed(confusion=[[[-1]]] * 2), "expected finite numbers from 0"),
    "a method that is none": (changed(method=["sgd"]), "expected a text, got list"),
    "a wrong checksum": (results_text(a_document()).replace("10.0", "11.0"), "its checksum is wrong"),
}


@pytest.mark.parametrize("name", RESULTS)
def test_damaged_results_are_one_sentence(name: str, tmp_path: Path) -> None:
    content, says = RESULTS[name]
    file = tmp_path / "results.json"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(EFCError, match=rf"^DIR: .*results\.json.*{says}") as told:
        read_results_file(file, "DIR")
    assert "\n" not in str(told.value)
    said: list[str] = []
    if content is not None:  # and it can be written again
        write_results(tmp_path, a_document(), said.append)
        assert read_results_file(file, "DIR") == a_document()


def test_results_without_a_checksum_are_read(tmp_path: Path) -> None:
    """As older versions wrote them, or as somebody changed them."""
    (tmp_path / "results.json").write_text(changed(method="mine"))
    assert read_results_file(tmp_path / "results.json", "DIR").rows[0].method == "mine"


CONFIGS: dict[str, tuple[bytes | None, str]] = {
    "a folder": (None, "cannot be read: Is a directory"),
    "nothing": (b"", "is no configuration"),
    "not UTF-8": (SETTINGS.encode() + b"\xff", "is not UTF-8"),
    "not YAML": (b"rows: [1", "is not valid YAML"),
    "deeply nested": (b"[" * 100_000, "is not valid YAML"),
    "a list": (b"- 1", "is no configuration"),
    "cut": (SETTINGS[:30].encode(), "is no configuration"),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_damaged_configuration_is_not_taken_for_another(name: str, tmp_path: Path) -> None:
    content, says = CONFIGS[name]
    (tmp_path / "results.json").write_text("{}")
    file = tmp_path / "config.yaml"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    with pytest.raises(EFCError, match=rf"--out: .*config\.yaml .*{says}") as told:
        check_folder(tmp_path, SETTINGS, overwrite=False)
    assert "--overwrite" not in str(told.value)
    assert "what is stored is not computed again" in str(told.value)


def test_a_configuration_knows_its_checksum(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text("{}")
    file = tmp_path / "config.yaml"
    write_config(file, SETTINGS)
    check_folder(tmp_path, SETTINGS, overwrite=False)
    with pytest.raises(EFCError, match=r"already holds results of other settings; .* pass --overwrite"):
        check_folder(tmp_path, OTHERS, overwrite=False)
    file.write_text(file.read_text().replace("seeds: 5", "seeds: 7"))
    with pytest.raises(EFCError, match="does not match its checksum: it was damaged, or changed by hand"):
        check_folder(tmp_path, SETTINGS, overwrite=False)
    file.write_text(SETTINGS)  # as the first version wrote it
    check_folder(tmp_path, SETTINGS, overwrite=False)


def test_results_of_an_early_version_get_their_accuracy_over_samples_from_the_answers() -> None:
    document = json.loads(to_json(a_document().to_json()))
    [row] = document["rows"]
    del row["sample_accuracy"]
    row["confusion"] = [[[9, 1], [4, 6]], [[10, 0], [0, 10]]]
    found = ResultRow.from_json(row).measures["sample_accuracy"]
    assert (found.mean, found.per_seed) == (87.5, [75.0, 100.0])
    one = json.loads(to_json(a_result(confusion=[[9, 1], [4, 6]]).to_json()))
    assert RunResult.from_json(one).metrics["sample_accuracy"] == one["metrics"]["sample_accuracy"]
    del one["metrics"]["sample_accuracy"]
    assert RunResult.from_json(one).metrics["sample_accuracy"] == 75.0
