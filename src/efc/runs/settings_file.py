"""Settings in YAML, as a user writes them: plain values alone, and one sentence for whatever else is in a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import yaml

from efc.errors import EFCError, shown


class Plain(yaml.SafeDumper):
    """Writes a value that stands in two places twice: what is written here is read here."""

    def ignore_aliases(self, data: object) -> bool:
        return True


DEEPEST = 20
"""Levels of a document; settings have four."""
LARGEST = 1_000_000
"""Bytes of a file of settings; the longest preset has a tenth."""


class _Loader(yaml.SafeLoader):
    """The plain values of YAML. PyYAML takes ``1e-3`` and ``inf`` for strings; here they are the numbers they look
    like. Dates are texts. An alias is refused: a few of them, nested, stand for more than a machine holds."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise ValueError("it has an alias (*name); write the value itself")
        if self.depth >= DEEPEST:
            raise ValueError(f"it is more than {DEEPEST} levels deep")
        self.depth += 1
        found = super().compose_node(parent, index)
        self.depth -= 1
        return found


def _construct_int(loader: _Loader, node: yaml.ScalarNode) -> int | float:
    """What no machine counts to is a number all the same; who needs a whole one will say so."""
    if len(node.value) > 400:
        raise ValueError(f"a number of {len(node.value)} digits")
    value = int(loader.construct_yaml_int(node))
    return value if abs(value) < 2**63 else float(value)


def _construct_float(loader: _Loader, node: yaml.ScalarNode) -> float:
    return float(str(loader.construct_scalar(node)).replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))


def _construct_text(loader: _Loader, node: yaml.ScalarNode) -> str:
    return str(loader.construct_scalar(node))


def _construct_nothing(loader: _Loader, node: yaml.Node) -> None:
    raise ValueError(f"it has a value of the kind {node.tag}; settings are numbers, texts, lists and named values")


_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)
_Loader.add_constructor("tag:yaml.org,2002:float", _construct_float)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+0123456789.")
)
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"^\+?\.?inf$"), list("+.i"))
_Loader.add_constructor("tag:yaml.org,2002:timestamp", _construct_text)
for _tag in ("binary", "omap", "pairs", "set"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _construct_nothing)


def parse(text: str) -> object:
    """A YAML value; whatever is wrong with the text is a ValueError."""
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as problem:
        raise ValueError(str(problem)) from None
    except (OverflowError, RecursionError) as problem:
        raise ValueError(f"a number or a text that is too large: {problem}") from None


def load_yaml(path: Path, argument: str = "--config") -> dict[str, object]:
    """Read a configuration file."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise EFCError(f"{argument}: {path} is larger than {LARGEST:,} bytes; that is no file of settings")
        content = parse(data.decode("utf-8"))
    except OSError as problem:
        raise EFCError(f"{argument}: cannot read {path}: {problem.strerror}") from None
    except ValueError as problem:
        if isinstance(problem, EFCError):
            raise
        raise EFCError(f"{argument}: {path} is not valid YAML: {' '.join(str(problem).split())}") from None
    return named_settings(f"{argument} {path}", {} if content is None else content)


def named_settings(name: str, value: object) -> dict[str, object]:
    """A mapping from names, or a sentence about what stands in its place."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise EFCError(f"{name}: expected named settings (key: value), got {shown(value)}")
    return dict(value)
