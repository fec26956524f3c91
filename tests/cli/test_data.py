"""`efc data` and `efc run` on other data, as typed by a user."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from support import command


def efc(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return command.efc(*arguments, cwd=cwd, EFC_DATA=str(cwd / "data"), PATH="")


def test_list_path_check_without_data(tmp_path: Path) -> None:
    listing = efc("data", "list", cwd=tmp_path)
    assert listing.returncode == 0
    for name in ("digits", "mnist", "fashion-mnist", "cifar10", "tiny-imagenet", "npz:FILE", "folder:DIR"):
        assert name in listing.stdout
    for action in ("path", "check"):
        done = efc("data", action, "mnist", cwd=tmp_path)
        assert done.returncode == 2
        assert "efc data get mnist" in done.stderr
    wrong = efc("data", "get", "mnits", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "did you mean 'mnist'" in wrong.stderr


def test_run_on_a_folder_of_pictures(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for c in range(4):
        (tmp_path / "pictures" / f"kind{c}").mkdir(parents=True)
        for k in range(60):
            noise = rng.integers(0, 60, (10, 12, 3))
            noise[:, 3 * c : 3 * c + 3] += 180  # a bright stripe tells the classes apart
            Image.fromarray(noise.astype(np.uint8)).save(tmp_path / "pictures" / f"kind{c}" / f"{k}.png")
    done = efc(
        "run", "--dataset", "folder:pictures", "--tasks", "2", "--methods", "efc,sgd", "--seeds", "2",
        "--scenario", "task",
        "--set", "image_size=12", "--hidden", "20", "--set", "batch_size=16", "--json", "--out", "o", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "2 tasks: kind0 kind1 | kind2 kind3" in done.stderr
    assert "active outputs, training and test: the classes of the task in question" in done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [row["tasks"] for row in rows] == [[["kind0", "kind1"], ["kind2", "kind3"]]] * 2
    assert all(row["accuracy"]["mean"] > 90 for row in rows)


def test_run_on_an_npz_with_classes_left_over(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(150) % 5
    x = (np.eye(5)[y] + 0.1 * rng.standard_normal((150, 5))).astype(np.float32)
    np.savez(tmp_path / "mine.npz", x_train=x[:100], y_train=y[:100], x_test=x[100:], y_test=y[100:])
    flags = ["--tasks", "2", "--methods", "sgd", "--seeds", "1", "--hidden", "8", "--out", "o"]
    done = efc("run", "--dataset", "npz:mine.npz", *flags, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "(left out: 4)" in done.stderr


def test_run_with_an_encoder_encodes_once(tmp_path: Path) -> None:
    """Real EfficientNet features of a few images; the second run finds them in the cache."""
    rng = np.random.default_rng(0)
    y = np.arange(32) % 4
    x = rng.integers(0, 80, (32, 20, 20, 3), dtype=np.uint8)
    x[y % 2 == 0, :, :, 0] += 150  # red or not, bright above or below: four classes
    x[y < 2, :10] += 25
    np.savez(tmp_path / "mine.npz", x_train=x, y_train=y, x_test=x[:16], y_test=y[:16])
    flags = ["run", "--dataset", "npz:mine.npz", "--encoder", "efficientnet-lite0", "--tasks", "2", "--methods", "sgd"]
    flags += ["--seeds", "1", "--scenario", "task", "--hidden", "20", "--head", "least_squares", "--json"]
    first = efc(*flags, "--out", "one", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "npz:mine.npz train: 32 of 32 (100 %)" in first.stderr
    row = json.loads(first.stdout)["rows"][0]
    assert row["encoder"] == "efficientnet-lite0"
    assert row["accuracy"]["mean"] > 75
    second = efc(*flags, "--out", "two", cwd=tmp_path)
    assert "train: 32" not in second.stderr
    assert json.loads(second.stdout)["rows"][0]["accuracy"] == row["accuracy"]
    [cache] = tmp_path.glob("data/features/*/train.npy")
    cache.write_bytes(cache.read_bytes()[:128] + bytes(32 * 1280 * 2))
    third = efc(*flags, "--out", "three", cwd=tmp_path)
    assert f"efc: {cache} is not what was written (block 1 of 1); encoded again\n" in third.stderr
    assert json.loads(third.stdout)["rows"][0]["accuracy"] == row["accuracy"]


def test_resnet18_without_weights_or_network_says_what_to_do(tmp_path: Path) -> None:
    x = np.zeros((8, 8, 8, 3), np.uint8)
    np.savez(tmp_path / "mine.npz", x_train=x, y_train=np.arange(8) % 4, x_test=x, y_test=np.arange(8) % 4)
    environment = os.environ | {"EFC_DATA": str(tmp_path / "data"), "https_proxy": "http://127.0.0.1:9"}
    command = [sys.executable, "-m", "efc", "data", "encode", "npz:mine.npz", "--encoder", "resnet18"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 2
    assert "resnet18-f37072fd.pth" in done.stderr
    assert "\nOr place these files by hand in " in done.stderr
    assert "\nOr give a file in torchvision's layout with --encoder-weights.\n" in done.stderr
    assert "Traceback" not in done.stderr
