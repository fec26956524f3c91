"""Tiny-ImageNet, packed or unpacked, on small folders made here."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from efc.data import tiny_imagenet
from support.images import pixels


@pytest.mark.parametrize("packed", [True, False])
def test_tiny_imagenet_from_zip_and_folder(packed: bool, tmp_path: Path) -> None:
    root, truth = tmp_path / "tiny-imagenet-200", {}
    wnids = ["n02", "n01", "n03"]
    for wnid in wnids:
        (root / "train" / wnid / "images").mkdir(parents=True)
        for k in range(2):
            image = pixels(64, 64, 3)
            truth[wnid, k] = image
            Image.fromarray(image).save(root / "train" / wnid / "images" / f"{wnid}_{k}.JPEG", format="PNG")
    (root / "val" / "images").mkdir(parents=True)
    Image.fromarray(pixels(64, 64)).save(root / "val" / "images" / "val_0.JPEG", format="PNG")  # grey, as some are
    (root / "wnids.txt").write_text("\n".join(wnids))
    (root / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn03\t0\t0\t62\t62\n")
    out = tmp_path / "arrays"
    out.mkdir()
    if packed:
        with zipfile.ZipFile(tmp_path / "tiny-imagenet-200.zip", "w") as bundle:
            for file in sorted(root.rglob("*")):
                bundle.write(file, file.relative_to(tmp_path))
        tiny_imagenet.from_zip(tmp_path, out)
    else:
        found = tiny_imagenet.present(tmp_path)
        assert found is not None
        found.prepare(out)
    np.testing.assert_array_equal(np.load(out / "train_labels.npy"), [0, 0, 1, 1, 2, 2])  # classes by sorted wnid
    np.testing.assert_array_equal(np.load(out / "train_images.npy")[2], truth["n02", 0])
    np.testing.assert_array_equal(np.load(out / "test_labels.npy"), [2])
    assert np.load(out / "test_images.npy").shape == (1, 64, 64, 3)
