"""Reading what was found out about a stored run: it is what it should be, or one sentence says what is wrong."""

from __future__ import annotations

from collections.abc import Mapping

from efc.files import Json
from efc.runs.reading import listed, mapping, maybe, number, numbers, text, whole
from efc.training.diagnosis import Finding
from efc.training.examination import Confused, Diagnosis


def read_finding(value: object) -> Finding:
    """Something that looks wrong, from JSON."""
    entry = mapping(value)
    return Finding(text(entry["kind"]), text(entry["text"]), maybe(entry.get("task"), whole))


def read_diagnosis(value: object) -> Diagnosis:
    """From JSON; raises ``ValueError`` or ``KeyError`` for what no examination can have found."""
    told = mapping(value)
    accuracy = numbers(told["accuracy"], 0.0, 100.0)

    def share(entry: object) -> float:
        return number(entry, 0.0, 100.0)

    def by_task(name: str, high: float = 100.0) -> list[float | None] | None:
        found = maybe(told[name], lambda each: listed(each, lambda one: maybe(one, lambda n: number(n, 0.0, high))))
        if found is not None and len(found) != len(accuracy):
            raise ValueError(f"expected a value of {name} for each of {len(accuracy)} tasks, got {len(found)}")
        return found

    def head(name: str) -> list[float] | None:
        found = by_task(name)
        return None if found is None else [share(entry) for entry in found]

    def pair(value: object) -> Confused:
        entry = mapping(value)
        return Confused(
            text(entry["shown"]), text(entry["answered"]), share(entry["share"]), maybe(entry["oracle"], share)
        )

    return Diagnosis(
        accuracy=accuracy,
        oracle=head("oracle"),
        ridge=head("ridge"),
        reads=text(told["reads"]),
        l2=maybe(told["l2"], lambda penalty: number(penalty, 0.0)),
        drift=by_task("drift", float("inf")),
        explained=by_task("explained"),
        confused=listed(told["confused"], pair),
        newest=maybe(told["newest"], share),
        newest_oracle=maybe(told["newest_oracle"], share),
        note=text(told["note"]),
    )


def read_further(further: Mapping[str, Json], seeds: int | None = None) -> dict[str, Json]:
    """What a run has to report beside the rest, or a row of so many seeds; a stream's part of it is looked at."""
    if "stream" in further:
        told = further["stream"]
        each = [_read_stream(told)] if seeds is None else listed(told, _read_stream)
        if len(each) != (seeds or 1) or len(set(each)) != 1:
            raise ValueError(f"expected the streams of {seeds or 1} seeds, measured at the same points")
    return dict(further)


def _read_stream(value: object) -> tuple[int, int]:
    """How many points and classes a stream was measured at; ``ValueError`` or ``KeyError`` if it cannot be one."""
    told = mapping(value)
    at, classes = numbers(told["at"], 0.0), listed(told["classes"], text)
    curve, mix = numbers(told["curve"], 0.0, 100.0), listed(told["mix"], lambda line: numbers(line, 0.0))
    if not at or sorted(at) != at or len(curve) != len(at) or [len(line) for line in mix] != [len(classes)] * len(at):
        raise ValueError(
            f"expected a curve and counts of {len(classes)} classes at each of {len(at)} points of a stream"
        )
    number(told["accuracy"], 0.0, 100.0)
    maybe(told["mean_adaptation"], lambda entry: number(entry, 0.0))
    for name in ("microseconds", "bytes"):
        number(told[name], 0.0)
    for name in ("checkpoints", "seen", "adaptation"):
        listed(told.get(name, []), lambda entry: maybe(entry, lambda one: number(one, 0.0)))
    return len(at), len(classes)
