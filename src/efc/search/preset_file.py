"""The preset file that a search writes, and `--preset` reads."""

from __future__ import annotations

import yaml

from efc.runs.config import RunConfig
from efc.search.samplers import Tried
from efc.search.space import Space, on_border


def preset_text(
    existing: str,
    base: RunConfig,
    tried: Tried,
    command: str,
    how: str,
    space: Space,
    name: str | None = None,
) -> str:
    """The preset file with the best setting, the budget, the scores and the command that found it."""
    preset = yaml.safe_load(existing) or {}
    row = base.rows[0]
    best, options = tried[0]
    preset.setdefault("training", {"epochs": base.epochs, "batch_size": base.batch_size})
    entry = {
        "options": options,
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
    return head + yaml.safe_dump(preset, sort_keys=False, default_flow_style=None, width=110)
