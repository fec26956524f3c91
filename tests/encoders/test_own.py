"""Somebody's own network as an encoder: what it computes, what it is known by, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from efc.data.catalogue import load
from efc.encoders import load_encoder, prepare
from efc.errors import EFCError
from efc.runs.config import make_config
from efc.runs.trust import Trust

CODE = """
import torch
class Mean(torch.nn.Module):
    def __init__(self, own):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        if own:
            self.prepare = lambda images: images.double().permute(0, 3, 1, 2) / 255
    def forward(self, x):
        return x.mean((2, 3)) * self.weight
def mean(): return Mean(False)
def plain(): return Mean(True)
def number(): return 3
def fails(): raise RuntimeError("no weights here")
def flat(): return torch.nn.Flatten(0)
class Odd(torch.nn.Module):
    # as it should be for the two images that it is tried with, and otherwise for a batch
    def __init__(self, change):
        super().__init__()
        self.weight, self.change = torch.nn.Parameter(torch.ones(3)), change
    def forward(self, x):
        f = x.mean((2, 3)) * self.weight
        return f if len(x) == 2 else self.change(f)
def fail(f): raise RuntimeError("in the\\nmiddle")
def nan(): return Odd(lambda f: f * float("nan"))
def large(): return Odd(lambda f: f.abs() + 1e6)
def narrow(): return Odd(lambda f: f[:, :2])
def short(): return Odd(lambda f: f[:-1])
def none(): return Odd(lambda f: None)
def broken(): return Odd(fail)
def half(): return Odd(lambda f: f).bfloat16()
class Nothing(torch.nn.Module):
    def forward(self, x): return x.mean((2, 3))[:, :0]
def nothing(): return Nothing()
class Two(torch.nn.Module):
    def forward(self, x): return 1j * x.mean((2, 3))
def two(): return Two()
"""
IMAGES = np.random.default_rng(0).integers(0, 256, (12, 9, 7, 3), dtype=np.uint8)


@pytest.fixture(autouse=True)
def backbones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "backbones", raising=False)
    file = tmp_path / "backbones.py"
    file.write_text(CODE)
    y = np.arange(12) % 3
    np.savez(tmp_path / "images.npz", x_train=IMAGES, y_train=y, x_test=IMAGES[:6], y_test=y[:6])
    return file


def test_features_are_the_networks_of_prepared_images() -> None:
    images = torch.from_numpy(IMAGES)
    found = load_encoder("backbones:mean")
    assert found.dim == 3
    torch.testing.assert_close(found.features(images), prepare(images).mean((2, 3)))
    own = load_encoder("backbones:plain").features(images)
    torch.testing.assert_close(own, images.double().mean((1, 2)) / 255)
    assert not own.requires_grad


def test_a_data_set_is_encoded_and_other_code_makes_other_features(backbones: Path, tmp_path: Path) -> None:
    first = load("npz:images.npz", "backbones:plain", data_dir=tmp_path / "cache")
    np.testing.assert_allclose(first.x_train, IMAGES.mean((1, 2)) / 255, atol=1e-3)
    known = load_encoder("backbones:plain").weights_hash
    del sys.modules["backbones"]
    backbones.write_text(CODE.replace("x.mean((2, 3))", "2 * x.mean((2, 3)) "))
    assert load_encoder("backbones:plain").weights_hash != known
    second = load("npz:images.npz", "backbones:plain", data_dir=tmp_path / "cache")
    np.testing.assert_allclose(second.x_train, 2 * IMAGES.mean((1, 2)) / 255, atol=2e-3)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("number", "must return a torch module, got int"),
        ("fails", "failed: RuntimeError: no weights here"),
        ("flat", r"must return features \(B, d\), got torch.float32 \(301056,\)"),
        ("nothing", r"must return features \(B, d\), got .*\(2, 0\)"),
        ("two", "complex64"),
        ("meen", "has no 'meen' .did you mean 'mean'"),
    ],
)
def test_what_is_no_encoder_is_told_in_a_sentence(name: str, told: str) -> None:
    with pytest.raises(EFCError, match=f"^encoder: .*{told}"):
        load_encoder(f"backbones:{name}")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nan", "returns NaN or infinity"), ("large", r"returns 1e\+06; features are kept in half precision"),
        ("narrow", r"features \(B, 3\), as it did before, got \(12, 2\) for 12"), ("short", r"got \(11, 3\) for 12"),
        ("none", "failed on images: AttributeError"), ("broken", "failed on images: RuntimeError: in the middle"),
    ],
)  # fmt: skip
def test_what_is_no_feature_does_not_get_into_the_cache(name: str, told: str, tmp_path: Path) -> None:
    """It would be read from there ever after, or shift all rows that follow."""
    for _ in range(2):
        with pytest.raises(EFCError, match=f"^encoder: backbones:{name} .*{told}"):
            load("npz:images.npz", f"backbones:{name}", data_dir=tmp_path / "cache")
    assert not list((tmp_path / "cache").rglob("train.npy"))


def test_features_in_another_half_precision_are_kept(tmp_path: Path) -> None:
    found = load("npz:images.npz", "backbones:half", data_dir=tmp_path / "cache")
    assert found.x_train.shape == (12, 3)
    assert np.isfinite(found.x_train).all()


def test_a_file_of_settings_may_not_name_one() -> None:
    layer = {"dataset": "npz:images.npz", "encoder": "backbones:mean"}
    with pytest.raises(EFCError, match=r"encoder: a file of settings wants to import 'backbones:mean'.*--trust"):
        make_config(layer)
    assert make_config(layer, trust=Trust.of(layer)).encoder == "backbones:mean"
    assert make_config(layer, trust=Trust(files=True)).encoder == "backbones:mean"
    assert "backbones" not in sys.modules  # settings alone import nothing
