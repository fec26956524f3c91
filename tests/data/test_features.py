"""The feature cache: right values, computed once, resumed after a kill, never stale."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from efc.data import features
from efc.data.image_set import ImageSet
from efc.encoders import Encoder, preprocess

LABELS = np.arange(300) % 3


class Small(nn.Module):
    """Mean colour of the four quarters: an encoder small enough for a test, counting what it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += len(x)
        return nn.functional.adaptive_avg_pool2d(x, 2).flatten(1)


def images(n: int = 300) -> ImageSet:
    x = np.random.default_rng(0).integers(0, 256, (n, 8, 8, 3), dtype=np.uint8)
    return ImageSet(
        "toy", ("a", "b", "c"), {"train": x, "test": x[:70]}, {"train": LABELS[:n], "test": LABELS[:70]}, "c0"
    )


def encoder() -> tuple[Encoder, Small]:
    network = Small()
    return Encoder("small", 12, "w0", torch.device("cpu"), network), network


def test_values_and_the_second_time_nothing_is_computed(tmp_path: Path) -> None:
    first, network = encoder()
    told: list[tuple[str, int, int | None]] = []
    found = features.encode(images(), first, tmp_path, lambda *at: told.append(at))
    expected = Small()(preprocess.prepare(torch.from_numpy(images().images["train"][0:300])))
    assert found.x["train"].dtype == np.float16
    np.testing.assert_allclose(found.x["train"], expected.numpy(), atol=2e-3)
    assert network.seen == 370
    assert told[-1] == ("toy test", 70, 70)
    again, network = encoder()
    features.encode(images(), again, tmp_path)
    assert network.seen == 0


def test_anything_that_matters_changes_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base, _ = encoder()
    keys = {
        features.cache_key(images(), base),
        features.cache_key(replace(images(), checksum="c1"), base),
        features.cache_key(images(), replace(base, weights_hash="w1")),
        features.cache_key(images(), replace(base, name="other")),
    }
    monkeypatch.setattr(preprocess, "VERSION", "another")
    keys.add(features.cache_key(images(), base))
    assert len(keys) == 5


ENCODE = """
import os, signal, sys, pathlib
sys.path[:0] = sys.argv[2].split(":")
import test_features_module as t
from efc.data import features
def progress(what, done, total):
    if sys.argv[3:] == [f"{what} {done}"]:
        os.kill(os.getpid(), signal.SIGKILL)
features.BATCH['cpu'], features.SAVE_EVERY = 10, 20
e, network = t.encoder()
features.encode(t.images(), e, pathlib.Path(sys.argv[1]), progress)
print("computed", network.seen, flush=True)
"""


def test_killed_in_the_middle_it_goes_on_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "test_features_module.py").write_text(Path(__file__).read_text())
    command = [sys.executable, "-c", ENCODE, str(tmp_path / "root"), str(tmp_path)]
    first = subprocess.run([*command, "toy train 150"])
    assert first.returncode == -signal.SIGKILL
    second = subprocess.run(command, capture_output=True, text=True, check=True)
    computed = int(second.stdout.split()[-1])
    assert computed == 370 - 140  # the last mark before the 150th image
    whole = features.encode(images(), encoder()[0], tmp_path / "elsewhere")
    resumed = features.encode(images(), encoder()[0], tmp_path / "root")
    for part in ("train", "test"):
        np.testing.assert_array_equal(whole.x[part], resumed.x[part])


LARGE = """
import resource, sys, pathlib
sys.path[:0] = [sys.argv[2]]
import numpy as np
import test_features_module as t
from efc.data import features, image_set as images
root = pathlib.Path(sys.argv[1])
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
def prepare(n, name):
    (root / "new").mkdir(parents=True)
    for part in ("train", "test"):
        writer = images.Writer(root / "new", part, n, (64, 64, 3))
        for start in range(0, n, 512):
            writer.add(np.full((512, 64, 64, 3), start % 256, np.uint8), np.zeros(512))
        writer.close()
    images.finish(root / "new", root / name, ["a"], "made")
    features.encode(images.open_prepared(name, root / name), t.encoder()[0], root)
prepare(512, "small")
before = peak()
prepare(3072, "large")
print(peak() - before)
"""


def test_images_do_not_pile_up_in_memory(tmp_path: Path) -> None:
    """Preparing and encoding 75 MB of images needs little more memory than 12 MB do."""
    (tmp_path / "test_features_module.py").write_text(Path(__file__).read_text())
    command = [sys.executable, "-c", LARGE, str(tmp_path / "root"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 40  # MB
