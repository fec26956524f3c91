"""Recovery: the model's file and the journal, in any state that a crash leaves; one process per model."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from queue import Queue

import numpy as np
import pytest

from efc import ContinualClassifier, EFCClassifier
from efc.classifiers.file_format import read
from efc.errors import EFCError
from efc.files import _temporary, make_folder
from efc.serve.journal import Record, Segment, replay, segments
from efc.serve.learning import learn
from efc.serve.pupil import Pupil, begun
from efc.serve.samples import Limits
from efc.serve.service import Making, Service, Settings
from support.planted import Planted
from support.serving import batches, samples

SMALL = Making(features=4, hidden=(8,))


def settings(folder: Path, **changes: object) -> Settings:
    given = {"making": SMALL, "beside": "sgd", "keep": True} | changes
    return Settings(folder / "m.safetensors", **given)  # type: ignore[arg-type]


def lived(given: Settings, some: list[tuple[list[list[float]], list[int]]], snapshots: bool = False) -> None:
    """A service that learns batches, and ends in good order."""
    service = Service(given)
    service.start()
    for k, (x, labels) in enumerate(some):
        service.teach(np.array(x), labels)
        if snapshots and k % 20 == 10:
            told: Queue[object] = Queue()
            service.teacher.ask_snapshot(told.put)
            assert isinstance(told.get(), dict)
    service.close()


def kept(file: Path) -> tuple[dict[str, bytes], object]:
    """All of a model's file; in which order its parts stand there is nobody's choice."""
    state, about = read(file)
    return {key: value.numpy().tobytes() for key, value in state.items()}, about


def replayed(folder: Path, to: Path) -> object:
    """What the file of a model has that learned the whole journal from its beginning."""
    pupil = Pupil(begun("efc", (8,), None, 0))
    for record in replay(folder / "m.safetensors.journal", 4):
        learn(record, pupil)
    pupil.save(to, Pupil.load(folder / "m.safetensors")[1])
    return kept(to)


def test_a_service_that_ended_goes_on_as_if_it_had_not(tmp_path: Path) -> None:
    some = batches(700)
    for name, cuts in (("whole", []), ("cut", [3, 40, 90, 91])):
        folder = tmp_path / name
        for begin, end in zip([0, *cuts], [*cuts, len(some)], strict=True):
            lived(settings(folder), some[begin:end], snapshots=name == "cut")
    files = [(tmp_path / name / "m.safetensors") for name in ("whole", "cut")]
    states = [Pupil.load(file)[0] for file in files]
    a, b = (state.estimator.model_.state_dict() for state in states)
    assert all(a[key].numpy().tobytes() == b[key].numpy().tobytes() for key in a)
    assert states[0].measures.to_json() == states[1].measures.to_json()
    assert states[0].measures.seen == 700
    assert replayed(tmp_path / "cut", tmp_path / "again") == kept(files[1])


def test_what_a_crash_leaves_behind_is_recovered(tmp_path: Path) -> None:
    """Files as they were at some moment, in a folder of their own: the journal is ahead of both model files."""
    some = batches(300)
    service = Service(settings(tmp_path / "live"))
    service.start()
    for k, (x, labels) in enumerate(some):
        service.teach(np.array(x), labels)
        if k == 20:
            service.teacher.ask_snapshot(lambda _: None)
    shutil.copytree(tmp_path / "live", tmp_path / "crashed")
    service.close()
    (tmp_path / "crashed" / "m.safetensors.journal" / "lock").unlink(missing_ok=True)
    again = Service(settings(tmp_path / "crashed"))
    assert 0 < again.replayed < len(some)
    again.close()
    for name in ("m.safetensors", "m.safetensors.journal/beside.safetensors"):
        assert kept(tmp_path / "live" / name) == kept(tmp_path / "crashed" / name)


def test_before_any_snapshot_the_journal_says_what_the_model_is_made_of(tmp_path: Path) -> None:
    service = Service(settings(tmp_path))
    service.start()
    service.teach(np.ones((1, 4)), ["a"])
    shutil.copytree(tmp_path, tmp_path.with_name("copy"))
    service.close()
    again = Service(settings(tmp_path.with_name("copy"), making=Making()))
    assert (again.features, again.pupil.met, again.making.hidden) == (4, ["a"], (8,))
    again.close()


def test_a_model_made_elsewhere_is_served_and_stays_readable(tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).normal(size=(40, 4)), np.array(["a", "b"] * 20)
    EFCClassifier(hidden_layer_sizes=6, random_state=0, mode="stream").partial_fit(x, y).save(
        tmp_path / "m.safetensors"
    )
    lived(settings(tmp_path, making=Making(), beside=None), [([[9.0, 9.0, 9.0, 9.0]] * 30, ["new"] * 30)])  # type: ignore[list-item]
    found = EFCClassifier.load(tmp_path / "m.safetensors")
    assert found.classes_.tolist() == ["a", "b", "new"]
    assert found.predict([[9.0, 9.0, 9.0, 9.0]]).tolist() == ["new"]


def test_two_services_do_not_share_a_model(tmp_path: Path) -> None:
    one = Service(settings(tmp_path))
    with pytest.raises(EFCError, match="another process serves this model"):
        Service(settings(tmp_path))
    one.close()
    Service(settings(tmp_path)).close()


def test_a_failed_start_lets_go_of_the_model(tmp_path: Path) -> None:
    lived(settings(tmp_path), batches(20))
    with pytest.raises(EFCError, match="features: this model has 4, not 5"):
        Service(settings(tmp_path, making=Making(features=5)))
    Service(settings(tmp_path)).close()


@pytest.mark.parametrize(
    ("making", "names"),
    [
        (Making(hidden=(9,)), "hidden: this model has"), (Making(method="sgd"), "method: this model has efc, not sgd"),
        (Making(head="zero"), "head: this model has"),
    ],
)  # fmt: skip
def test_another_network_than_the_file_has_is_refused(making: Making, names: str, tmp_path: Path) -> None:
    lived(settings(tmp_path), batches(20))
    with pytest.raises(EFCError, match=names):
        Service(settings(tmp_path, making=making))


def test_what_does_not_belong_together_is_told(tmp_path: Path) -> None:
    with pytest.raises(EFCError, match="--features"):
        Service(settings(tmp_path / "nothing", making=Making()))
    lived(settings(tmp_path / "a"), batches(20))
    lived(settings(tmp_path / "b"), batches(20))
    with pytest.raises(EFCError, match="beside: sgd"):
        Service(settings(tmp_path / "a", beside="slda"))
    shutil.copy(tmp_path / "b" / "m.safetensors", tmp_path / "a")
    with pytest.raises(EFCError, match="belongs to another model"):
        Service(settings(tmp_path / "a"))


def test_one_that_stayed_away_cannot_be_beside_again(tmp_path: Path) -> None:
    lived(settings(tmp_path, keep=False), batches(20))
    for seed in (1, 2):
        lived(settings(tmp_path, keep=False, beside=None), batches(20, seed))
    with pytest.raises(EFCError, match="no longer kept"):
        Service(settings(tmp_path, keep=False))


def test_a_journal_that_is_damaged_stops_the_start(tmp_path: Path) -> None:
    lived(settings(tmp_path), batches(200))
    (tmp_path / "m.safetensors").unlink()
    (tmp_path / "m.safetensors.journal" / "beside.safetensors").unlink()
    path = segments(tmp_path / "m.safetensors.journal")[0].path
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(EFCError, match="damaged at byte"):
        Service(settings(tmp_path))
    assert path.read_bytes() == bytes(data)


def test_snapshots_come_by_themselves_and_the_journal_stays_small(tmp_path: Path) -> None:
    lived(settings(tmp_path, keep=False, every=50), batches(400))
    assert len(segments(tmp_path / "m.safetensors.journal")) == 1
    assert Pupil.load(tmp_path / "m.safetensors")[0].measures.seen == 400


def test_there_may_be_so_many_classes_and_no_more(tmp_path: Path) -> None:
    service = Service(settings(tmp_path, limits=Limits(classes=3)))
    service.start()
    service.teach(np.ones((5, 4)), [1, 2, 2, 3, 1])
    with pytest.raises(EFCError, match="with 4 there would be more than the 3 classes"):
        service.teach(np.ones((2, 4)), [1, 4])
    with pytest.raises(EFCError, match="numbers, got 'a'"):
        service.teach(np.ones((1, 4)), ["a"])
    service.close()


def test_batches_that_fail_and_batches_that_were_replayed_make_a_snapshot_due(tmp_path: Path) -> None:
    """Else the journal, and the time that a start takes, would grow without bound."""
    given = settings(tmp_path, making=Making(), beside=None, every=1000, keep=False)
    fragile(tmp_path / "m.safetensors")
    service = Service(given)
    service.start()
    for _ in range(12):
        service.teach(BAD, [0, 1] * 300)
    assert service.pupil.measures.failed == 12
    assert service.covered >= 12 - 2 - 1
    service.teacher.due = lambda _: False  # as if it were killed before each
    x, labels = samples(1100)
    service.teach(np.array(x), labels)
    shutil.copytree(tmp_path, tmp_path.with_name("killed"))
    service.close()
    again = Service(replace(given, model=tmp_path.with_name("killed") / "m.safetensors"))
    again.start()
    before = again.covered
    again.teach(np.ones((1, 4)), [0])
    again.teach(np.ones((1, 4)), [0])
    assert again.covered > before
    again.close()


def test_a_journal_that_is_large_makes_a_snapshot_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("efc.serve.service.LARGE", 2000)
    service = Service(settings(tmp_path, keep=False))
    service.start()
    for x, labels in batches(300):
        service.teach(np.array(x), labels)
        assert service.journal.bytes < 3 * 2000, "what was covered last, and what came since"
    assert service.journal.written > 5 * 2000
    service.close()


BAD = np.random.default_rng(0).normal(size=(600, 4)) * 1e14
"""Plain gradient descent on inputs of any size diverges by them."""


def fragile(file: Path) -> None:
    raw = {"standardise": False, "options": {"optimiser": "sgd"}, "mode": "stream", "random_state": 0}
    x, y = samples(600, seed=3)
    ContinualClassifier("sgd", hidden_layer_sizes=8, **raw).partial_fit(x, y).save(file)  # type: ignore[arg-type]


def test_what_a_kill_leaves_of_a_snapshot_goes_with_the_next_start(tmp_path: Path) -> None:
    service = Service(settings(tmp_path))
    places = [(tmp_path, "m.safetensors"), (service.folder, "beside.safetensors")]
    service.close()
    others = []
    for folder, name in places:
        file, path = _temporary(folder / name)
        file.close()
        assert path.exists()
        for other in (f".{name}.original", f".n{name}.abcdefgh", f"{name}.abcdefgh", f".{name}.abc"):
            (folder / other).write_text("somebody's own")
            others.append(folder / other)
    writing, living = _temporary(tmp_path / "m.safetensors")  # by a process that lives
    Service(settings(tmp_path)).close()
    there = {
        path for folder, _ in places for path in folder.iterdir() if path.name not in ("lock", service.folder.name)
    }
    assert there == {*others, living}
    writing.close()


def test_folders_are_on_disk_before_what_is_in_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a power loss takes the journal's folder, and all that was accepted with it."""
    synced, fsync = set[int](), os.fsync

    def heard(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", heard)
    make_folder(tmp_path / "a" / "b", "model")
    assert {path.stat().st_ino for path in (tmp_path, tmp_path / "a")} <= synced
    service = Service(settings(tmp_path / "a" / "b"))
    service.start()
    service.teach(np.ones((1, 4)), ["a"])
    journal = tmp_path / "a" / "b" / "m.safetensors.journal"
    assert {path.stat().st_ino for path in (journal.parent, journal, *journal.glob("*.log"))} <= synced
    service.close()


def test_the_state_says_what_was_learned(tmp_path: Path) -> None:
    service = Service(settings(tmp_path))
    service.start()
    some = batches(120)
    for x, labels in some:
        service.teach(np.array(x), labels)
    state, labels = service.state(), [label for _, labels in some for label in labels]
    assert {c["label"]: c["count"] for c in state["classes"]} == {k: labels.count(k) for k in set(labels)}  # type: ignore[index, union-attr]
    assert (state["seen"], state["sequence"], state["queued"], state["broken"]) == (120, len(some), 0, None)
    points = service.history()["points"]
    assert points[-1]["seen"] <= 120  # type: ignore[index]
    assert all(point["beside_recent"] is not None for point in points)  # type: ignore[index, union-attr]
    service.close()


ABOUT = {
    "journal": "j",
    "features": 4,
    "making": {"features": 4, "method": "efc", "hidden": [8], "head": None, "seed": 0},
}


def sent(folder: Path, about: dict[str, object]) -> Path:
    """A journal that somebody else has made, with one batch, and no model's file."""
    place = folder / "m.safetensors.journal"
    place.mkdir(parents=True)
    with Segment.begin(place, 1, about) as file:  # type: ignore[arg-type]
        file.write(Record(1, np.ones((2, 4)), ["a", "b"]).to_bytes(0))
    return folder / "m.safetensors"


def test_a_journal_that_names_code_runs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sends a folder with a journal would own the machine of whoever serves it."""
    monkeypatch.chdir(tmp_path)
    planted = Planted(tmp_path)
    for k, name in enumerate(("planted:Planted", "planted.py:Planted")):
        model = sent(tmp_path / str(k), ABOUT | {"making": ABOUT["making"] | {"method": name}})  # type: ignore[operator]
        for asked in (Making(), Making(method="other:Class"), Making(method="efc")):
            with pytest.raises(EFCError, match=r"--trust|this model has planted"):
                Service(Settings(model, making=asked))
        assert not planted.ran
    trusting = Service(Settings(model, trust=True))
    assert planted.ran
    assert trusting.pupil.met == ["a", "b"]
    trusting.close()


@pytest.mark.parametrize("named", ["method", "beside"])
def test_the_same_command_goes_on_with_code_of_ones_own(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a crash: before there is a model's file, and with one. Without the name, it is not imported."""
    monkeypatch.chdir(tmp_path)
    Planted(tmp_path)
    own, some = "planted.py:Planted", batches(60)
    given = settings(tmp_path / "a", making=Making(4, own, (8,)), beside=None) if named == "method" else settings(
        tmp_path / "a", beside=own)  # fmt: skip
    service = Service(given)
    service.start()
    for x, labels in some:
        service.teach(np.array(x), labels)
    shutil.copytree(tmp_path / "a", tmp_path / "crashed")
    service.close()
    for folder in ("a", "crashed"):
        again = Service(replace(given, model=tmp_path / folder / "m.safetensors"))
        assert again.pupil.measures.seen == 60
        again.close()
    with pytest.raises(EFCError, match="pass --trust, or name it yourself"):
        Service(settings(tmp_path / "a", making=Making(), beside=None if named == "method" else "sgd"))


@pytest.mark.parametrize(
    "about",
    [
        {}, {"journal": "j"}, ABOUT | {"journal": [1]}, ABOUT | {"features": "4"}, ABOUT | {"features": None},
        *(ABOUT | {"making": making} for making in (3, None, [], {}, {"features": 4})),
        *(
            ABOUT | {"making": ABOUT["making"] | change}  # type: ignore[operator]
            for change in (
                {"features": -1}, {"features": 4.0}, {"features": True}, {"hidden": "abc"}, {"hidden": [0]},
                {"hidden": 3}, {"method": 3}, {"method": "nothing"}, {"head": {}}, {"head": "nothing"}, {"seed": -1},
                {"seed": 2**40}, {"seed": "x"}, {"more": 1}, {"features": 5}, {"hidden": [10**11]},
                {"hidden": [10**30]},
            )
        ),
    ],
)  # fmt: skip
def test_journals_that_say_of_themselves_what_cannot_be_are_one_sentence(
    about: dict[str, object], tmp_path: Path
) -> None:
    with pytest.raises(EFCError) as told:
        Service(Settings(sent(tmp_path, about)))
    assert "\n" not in str(told.value)


def test_a_service_none_of_whose_batches_could_be_learned_ends_in_good_order(tmp_path: Path) -> None:
    service = Service(settings(tmp_path, beside=None))
    service.start()
    service.teacher.submit(np.full((1, 4), np.nan), ["a"], lambda _: None)
    service.close()
    assert (service.pupil.measures.failed, service.pupil.measures.seen) == (1, 0)
