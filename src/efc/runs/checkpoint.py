"""Checkpoints of a training: two generations of safetensors, each with a JSON file that says what it must be."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from efc.files import Json, make_folder, write_atomically

KEPT = 2
"""Generations on disk: if the newest is damaged, there is the one before."""
Tell = Callable[[str], None]


class Checkpoints:
    """The checkpoints of one pack, in a folder of its own."""

    def __init__(self, folder: Path, tell: Tell | None = None) -> None:
        self.folder, self.tell = folder, tell or (lambda text: None)

    def save(self, state: dict[str, Tensor], about: Mapping[str, Json]) -> None:
        """A new generation; it counts from the moment its JSON file is there, and older ones go only then."""
        make_folder(self.folder, "checkpoint")
        number = max((self._number(file) for file in self.folder.glob("*.json")), default=0) + 1
        content = save({key: value.detach().cpu().contiguous() for key, value in state.items()})
        write_atomically(self._file(number, "safetensors"), content)
        note = dict(about) | {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
        write_atomically(self._file(number, "json"), json.dumps(note, indent=1))
        for file in self.folder.iterdir():
            if file.suffix in (".json", ".safetensors") and 0 < self._number(file) <= number - KEPT:
                file.unlink(missing_ok=True)

    def load(self) -> tuple[dict[str, Tensor], dict[str, Json]] | None:
        """The newest generation that is whole; a damaged one is named and set aside."""
        numbers = sorted((self._number(file) for file in self.folder.glob("*.json")), reverse=True)
        for number in numbers:
            found = self._read(number)
            if isinstance(found, tuple):
                return found
            self._set_aside(number, found)
        return None

    def faults(self) -> dict[int, str]:
        """What is wrong with which generations; nothing is changed."""
        found = {}
        for number in sorted(self._number(file) for file in self.folder.glob("*.json")):
            problem = self._read(number)
            if isinstance(problem, str) and self._file(number, "json").exists():  # else someone alive has replaced it
                found[number] = f"checkpoint {self._file(number, 'safetensors')} {problem}"
        return found

    def set_aside(self) -> list[str]:
        """Rename what is damaged; returns what was."""
        found = self.faults()
        for number in found:
            self._rename(number)
        return [f"{text}; set aside as *.damaged" for text in found.values()]

    def remove(self) -> None:
        """The training is finished and its results are stored: nothing is needed any more."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _read(self, number: int) -> tuple[dict[str, Tensor], dict[str, Json]] | str:
        """State and note of one generation, or what is wrong with it."""
        try:
            note = json.loads(self._file(number, "json").read_text(encoding="utf-8"))
            content = self._file(number, "safetensors").read_bytes()
        except (OSError, ValueError, RecursionError) as problem:
            return f"cannot be read ({type(problem).__name__})"
        if not isinstance(note, dict) or hashlib.sha256(content).hexdigest() != note.get("sha256"):
            return f"is damaged ({len(content)} bytes, checksum wrong)"
        try:
            return {key: torch.as_tensor(value) for key, value in load(content).items()}, note
        except SafetensorError as problem:
            return f"is damaged ({problem})"

    def _set_aside(self, number: int, reason: str) -> None:
        self._rename(number)
        name = self._file(number, "safetensors")
        self.tell(f"checkpoint {name} {reason}; set aside as {name.name}.damaged; the one before it is used")

    def _rename(self, number: int) -> None:
        for kind in ("safetensors", "json"):
            file = self._file(number, kind)
            if file.exists():
                file.replace(file.with_name(f"{file.name}.damaged"))

    def _file(self, number: int, kind: str) -> Path:
        return self.folder / f"{number:06d}.{kind}"

    @staticmethod
    def _number(file: Path) -> int:
        stem = file.name.split(".")[0]
        return int(stem) if stem.isdecimal() else 0
