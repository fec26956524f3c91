"""The preset file that a search writes, and `--preset` reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from efc.files import make_folder
from efc.runs.config import Row, RunConfig
from efc.runs.settings_file import Plain, load_yaml, named_settings
from efc.search.samplers import Tried
from efc.search.space import Space, on_border


def read_presets(file: Path, rows: Sequence[Row], name: str | None = None) -> dict[str, object]:
    """What a preset file holds, in which there is a place for what a search of these rows finds."""
    if not file.exists():
        make_folder(file.parent, "--preset")
        return {}
    found = load_yaml(file, "--preset")
    for row in rows:
        place, at = found, f"--preset {file}"
        for part in (row.scenario, name or row.method):
            at = f"{at}: {part}"
            place = named_settings(at, place.get(part, {}))
    return found


def preset_text(
    existing: dict[str, object],
    base: RunConfig,
    tried: Tried,
    command: str,
    how: str,
    space: Space,
    name: str | None = None,
) -> str:
    """The preset file with the best setting, the budget, the scores and the command that found it."""
    preset: dict[str, Any] = {**existing}
    row = base.rows[0]
    best, options = tried[0]
    preset.setdefault("training", {"epochs": base.epochs, "batch_size": base.batch_size, "hidden": list(base.hidden)})
    given, usual = row.options.to_mapping(), type(row.options)().to_mapping() | (preset.get("assumes") or {})
    entry = {
        "options": options,
        "assumes": {key: value for key, value in given.items() if value != usual[key] and key not in options},
        "validation_accuracy": round(best, 2),
        "settings_tried": len(tried),
        "how": how,
        "command": command,
        "scores": sorted((round(score, 2) for score, _ in tried), reverse=True)[:10],
        "best": [[round(score, 2), dict(setting)] for score, setting in tried[:5]],
        "searched": {axis: list(values) for axis, values in space.items()},
        "on_border": on_border(space, options),
    }
    preset.setdefault(row.scenario, {}).setdefault(name or row.method, {})[row.head] = entry
    head = "# Found by `efc sweep` on validation data; use it with: efc run --preset THIS_FILE\n"
    return head + yaml.dump(preset, Dumper=Plain, sort_keys=False, default_flow_style=None, width=110)
