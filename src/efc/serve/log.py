"""What a service has to say to whoever runs it."""

from __future__ import annotations

import sys
from contextlib import suppress

from efc.errors import visible


def log(sentence: str) -> None:
    """On stderr, as all that the commands say. Where nobody reads that any more, the service goes on."""
    with suppress(OSError, ValueError):
        print(f"efc: {visible(sentence, keep='')}", file=sys.stderr, flush=True)
