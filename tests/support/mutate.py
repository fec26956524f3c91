"""Files that something has gone wrong with: any bytes, changed as disks, networks and people change them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random


def mutations(data: bytes, rng: Random, n: int) -> Iterator[bytes]:
    """``n`` damaged copies."""
    for _ in range(n):
        damaged = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 8))):
            at = rng.randrange(len(damaged) + 1)
            to = min(len(damaged), at + 2 ** rng.randrange(12))
            kind = rng.randrange(7)
            if kind == 0:
                damaged = damaged[:at]
            elif kind == 1:
                damaged[at:to] = bytes(to - at)
            elif kind == 2:
                damaged[at:to] = rng.randbytes(to - at)
            elif kind == 3:
                del damaged[at:to]
            elif kind == 4:
                damaged[at:at] = damaged[at:to]
            elif at < len(damaged):
                damaged[at] ^= 1 << rng.randrange(8)
        yield bytes(damaged)


def check_sentence(mistake: Exception) -> None:
    """What is said of a file that cannot be read is one line, and not the whole file."""
    assert "\n" not in str(mistake)
    assert 10 < len(str(mistake)) < 1000
