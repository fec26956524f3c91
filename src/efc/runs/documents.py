"""The two documents beside a store: `results.json` and `config.yaml`, each with a checksum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import yaml

from efc.errors import EFCError
from efc.files import write_atomically
from efc.runs.config import RunConfig
from efc.runs.reading import read, seal, sha256
from efc.runs.results import Results
from efc.runs.settings_file import parse

_MARK = "# checksum of what follows: "


def results_text(results: Results) -> str:
    """What `results.json` holds."""
    return seal(results.to_json())


def read_results_file(file: Path, argument: str) -> Results:
    """The results in a file, with one sentence for whatever is wrong with it."""

    def make(document: Mapping[str, object]) -> Results:
        found = Results.from_json(document)
        if not found.rows:
            raise ValueError("it has no rows")
        return found

    return read(file, argument, make, "results of efc run or efc bench")


def write_config(file: Path, settings: str) -> None:
    write_atomically(file, f"{_MARK}{sha256(settings.encode())}\n{settings}")


def check_folder(folder: Path, settings: str, overwrite: bool) -> None:
    """Results of other settings are not mixed up with these, nor lost, unless asked for."""
    held = folder / "config.yaml"
    if overwrite or not (folder / "results.json").exists():
        return
    damage = damage_of(held) if held.exists() else ""
    if damage:
        told = "move it and results.json away and give the command again: what is stored is not computed again"
        raise EFCError(f"--out: {held} {damage}; {told}")
    if not held.exists() or _settings(held.read_text(encoding="utf-8"))[1] != settings:
        raise EFCError(
            f"--out: {folder} already holds results of other settings; choose another folder or pass --overwrite"
        )


def damage_of(file: Path) -> str:
    """What is wrong with a `config.yaml`; empty: nothing."""
    try:
        checksum, settings = _settings(file.read_bytes().decode("utf-8"))
        if checksum:
            right = checksum == sha256(settings.encode())
            return "" if right else "does not match its checksum: it was damaged, or changed by hand"
        found = None if settings.lstrip().startswith("#") else parse(settings)  # of a version without checksums
        names = {item.name for item in fields(RunConfig)}
        whole = isinstance(found, dict) and {"dataset", "rows"} <= found.keys() <= names
        return "" if whole else "is damaged: it is no configuration"
    except OSError as problem:
        return f"cannot be read: {problem.strerror}"
    except UnicodeDecodeError:
        return "is damaged: it is not UTF-8"
    except (yaml.YAMLError, ValueError, RecursionError):
        return "is damaged: it is not valid YAML"


def _settings(text: str) -> tuple[str, str]:
    """(checksum, the rest); the first is empty in a file of a version without checksums, which had no comments."""
    first, _, rest = text.partition("\n")
    return (first.removeprefix(_MARK), rest) if first.startswith(_MARK) else ("", text)
