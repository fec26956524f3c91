"""A finished run on disk, twice: a file of JSON and a row of the database, each with a checksum of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from datetime import datetime

from efc.errors import EFCError
from efc.files import Json, to_json
from efc.runs.identity import digest
from efc.runs.reading import DAMAGE, mapping, parse, seal, sealed, sha256, text, whole
from efc.runs.results import RunResult

Column = str | int | float | None
"""What a cell of the database holds."""
_NAMES = ("method", "head", "dataset", "scenario", "encoder", "evaluate")


@dataclass(frozen=True)
class Stored:
    """A finished run as its JSON file holds it; that of an older version may have other settings."""

    id: str
    settings: Mapping[str, Json]
    result: Mapping[str, Json]
    finished: str
    """When."""

    def to_text(self) -> str:
        """The file, with a checksum."""
        return seal(vars(self))

    @classmethod
    def from_json(cls, document: Mapping[str, object]) -> Stored:
        """Raises ``ValueError`` or ``KeyError`` for what no run can have left."""
        settings, result = read_settings(document["settings"]), _document(document["result"])
        RunResult.from_json(result)
        finished = text(document["finished"])
        datetime.fromisoformat(finished)
        return cls(text(document["id"]), settings, result, finished)


@dataclass(frozen=True)
class Record:
    """A row of the table ``runs``."""

    id: str
    method: str
    head: str
    dataset: str
    scenario: str
    seed: int
    evaluated_on: str
    accuracy: float
    seconds: float
    finished: str
    settings: str
    """JSON, as is ``result``."""
    result: str
    status: str
    code: str
    kin: str
    """The hash of the settings without code and data: what runs share that would replace each other."""
    copy: str
    """The hash of the file with the same run."""

    @classmethod
    def of(cls, stored: Stored, content: bytes) -> Record:
        """From a run and its file's content."""
        s, result = stored.settings, RunResult.from_json(stored.result)
        return cls(
            id=stored.id,
            method=_cell(s["method"]),
            head=_cell(s["head"]),
            dataset=_cell(s["dataset"]),
            scenario=_cell(s["scenario"]),
            seed=whole(s["seed"]),
            evaluated_on=_cell(s["evaluate"]),
            accuracy=float(result.metrics["accuracy"]),
            seconds=float(result.seconds),
            finished=stored.finished,
            settings=to_json(s),
            result=to_json(stored.result),
            status=result.status,
            code=_cell(s.get("code", "")),
            kin=kin(s),
            copy=sha256(content),
        )

    @property
    def checksum(self) -> str:
        return row_checksum(astuple(self))

    def stored(self) -> Stored:
        try:
            document = {"settings": parse(self.settings.encode()), "result": parse(self.result.encode())}
            return Stored.from_json(document | {"id": self.id, "finished": self.finished})
        except DAMAGE as problem:  # with a checksum that is right: somebody made it so
            raise EFCError(f"run {self.id} holds what no run can have left: {problem}") from None


COLUMNS = tuple(item.name for item in fields(Record))
OLD = COLUMNS.index("status")
"""Columns that the rows of the first version had: no status, no code, no checksum."""


def read_settings(value: object) -> dict[str, Json]:
    """The settings of a run, as far as every version has them."""
    settings = _document(value)
    for name in _NAMES:
        text(settings[name])
    whole(settings["seed"])
    mapping(settings["options"])
    return settings


def kin(settings: Mapping[str, Json]) -> str:
    """What remains of a run's identity when code or data have changed."""
    kept = {name: value for name, value in settings.items() if name not in ("code", "data")}
    return digest(json.loads(to_json(kept)))  # as it comes back from disk: an infinite option is a text there


def row_checksum(values: Sequence[Column]) -> str:
    return sha256(json.dumps(values, separators=(",", ":")).encode())


def read_row(row: Sequence[Column]) -> tuple[Record | None, bool]:
    """The record of a row as the database holds it, its checksum last; and whether a checksum vouches for it.

    None where it is damaged. A row of the first version has no checksum; what it holds is a run at least.
    """
    *values, checksum = row
    if checksum is None and all(value is None for value in values[OLD:]):
        return _old_record(values), False
    try:
        return (Record(*values), True) if checksum == row_checksum(values) else (None, False)  # type: ignore[arg-type]
    except DAMAGE:
        return None, False


def _old_record(values: Sequence[Column]) -> Record | None:
    try:
        old = Record(*[*values[:OLD], *[""] * (len(COLUMNS) - OLD)])  # type: ignore[arg-type]
        stored = old.stored()
        record = Record.of(stored, b"")
    except DAMAGE:
        return None
    # The columns repeat what settings and result say: where they do not, one of the two is damaged.
    same_columns = astuple(record)[: OLD - 2] == astuple(old)[: OLD - 2]
    return record if same_columns and _identified(stored) else None


def read_file(content: bytes, key: str) -> tuple[Stored | None, bool]:
    """The run that a file holds, and whether a checksum vouches for it; None where it is damaged or another's."""
    try:
        document = dict(mapping(parse(content)))
        vouched = sealed(content, document)
        if not vouched and document.keys() != {item.name for item in fields(Stored)}:
            return None, False
        found = Stored.from_json(document)
    except DAMAGE:
        return None, False
    return (found, vouched) if found.id == key and (vouched or _identified(found)) else (None, False)


def _identified(stored: Stored) -> bool:
    """Whether the settings are those that the id stands for; an infinite option was a number then and is a text now."""
    options = to_json(stored.settings["options"])
    return '"inf"' in options or '"-inf"' in options or digest(stored.settings) == stored.id


def same(one: Stored, other: Stored) -> bool:
    """Whether two copies say the same, however their numbers are written."""
    return to_json(vars(one)) == to_json(vars(other))


def _cell(value: object) -> str:
    """A text that the database takes; the name of a file may hold bytes that are no characters."""
    return text(value).encode("utf-8", "backslashreplace").decode()


def _document(value: object) -> dict[str, Json]:
    return dict(mapping(value))  # type: ignore[arg-type]
