"""A user's own class or function, named as ``module:Name`` or ``path/to/file.py:Name``.

To import is to run code. Whoever reads such a name from a file asks :func:`named_code` first, and imports nothing
unless the user has said that the file is trusted.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from efc.errors import EFCError, suggest


def load_object(argument: str, spec: str) -> Any:
    """What ``spec`` names; modules are looked for in the working folder first."""
    module_name, _, name = spec.rpartition(":")
    if not module_name or not name.isidentifier():
        raise EFCError(f"{argument}: expected module:Name or file.py:Name, got {spec!r}")
    module = _import(argument, module_name)
    if not hasattr(module, name):
        public = [key for key in vars(module) if not key.startswith("_")]
        raise EFCError(f"{argument}: {module_name} has no {name!r}{suggest(name, public)}")
    return getattr(module, name)


def named_code(value: object) -> Iterator[str]:
    """Every text in plain data, at any depth, that could name something to import; names of the package have no colon.

    What occurs in several places is looked at once: a file may refer to one part of it very often.
    """
    waiting, seen = [value], set()
    while waiting:
        entry = waiting.pop()
        if isinstance(entry, str):
            if ":" in entry:
                yield entry
        elif isinstance(entry, Mapping | Sequence) and id(entry) not in seen:
            seen.add(id(entry))
            waiting += entry.values() if isinstance(entry, Mapping) else entry


def untrusted(who: str, name: str, remedy: str) -> EFCError:
    """What is said of a file that names code."""
    return EFCError(f"{who} wants to import {name[:200]!r}, which may run any code; {remedy}")


def name_of(thing: Any) -> str:
    """``module:Name`` of a class or function, for a configuration file."""
    return f"{thing.__module__}:{getattr(thing, '__qualname__', type(thing).__qualname__)}"


def _import(argument: str, name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return _import_file(Path(name)) if name.endswith(".py") else importlib.import_module(name)
    except Exception as problem:  # whatever a user's file does while it is imported
        if isinstance(problem, FileNotFoundError) or getattr(problem, "name", None) == name:
            raise EFCError(f"{argument}: there is no module or file {name!r} here ({here})") from None
        raise EFCError(f"{argument}: {name} cannot be imported: {type(problem).__name__}: {problem}") from problem


def _import_file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        raise FileNotFoundError(path)
    for loaded in sys.modules.values():
        if getattr(loaded, "__file__", None) == str(path):
            return loaded
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
