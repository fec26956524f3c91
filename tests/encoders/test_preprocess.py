"""What the encoders see: known constants, a known ramp, nothing resized twice or clamped."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from efc.encoders import prepare
from efc.errors import EFCError

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


def pixels(*shape: int) -> Tensor:
    return torch.randint(256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def unit(x: Tensor) -> Tensor:
    """Undo the normalisation."""
    return x * STD + MEAN


def test_a_constant_image_gives_the_normalised_constants() -> None:
    x = prepare(torch.tensor([51, 102, 255], dtype=torch.uint8).expand(2, 20, 30, 3))
    assert x.shape == (2, 3, 224, 224)
    assert x.dtype == torch.float32
    expected = torch.tensor([(0.2 - 0.485) / 0.229, (0.4 - 0.456) / 0.224, (1.0 - 0.406) / 0.225])
    torch.testing.assert_close(x, expected.view(1, 3, 1, 1).expand_as(x), rtol=0, atol=1e-5)


@pytest.mark.parametrize("size", [28, 224])
def test_grey_equals_repeated_colours(size: int) -> None:
    grey = pixels(2, size, size)
    assert torch.equal(prepare(grey), prepare(grey.unsqueeze(-1).repeat(1, 1, 1, 3)))


def test_an_image_of_the_right_size_is_left_as_it_is() -> None:
    images = pixels(1, 224, 224, 3)
    assert torch.equal(prepare(images), (images.permute(0, 3, 1, 2).float() / 255 - MEAN) / STD)


@pytest.mark.parametrize("axis", [1, 2])
def test_a_ramp_stays_a_ramp_with_pixel_centres_aligned(axis: int) -> None:
    """The antialiased bicubic kernel (a = -1/2) reproduces straight lines away from the border, a = -3/4 does not."""
    ramp = (8 * torch.arange(32)).to(torch.uint8)
    images = ramp.view(1, *((32, 1) if axis == 1 else (1, 32))).expand(1, 32, 32)
    row = unit(prepare(images)).movedim(axis + 1, -1)[0, :, 112]
    centres = (torch.arange(224) + 0.5) / 7 - 0.5
    inside = (centres > 2) & (centres < 29)
    expected = 8 * centres[inside] / 255
    torch.testing.assert_close(row[:, inside], expected.expand(3, -1), rtol=0, atol=1e-5)


def test_shrinking_averages_fine_stripes_instead_of_picking_pixels() -> None:
    stripes = (255 * (torch.arange(672) % 2)).to(torch.uint8).view(1, 1, 672).expand(1, 672, 672)
    inner = unit(prepare(stripes))[..., 2:-2]
    assert (inner - 0.5).abs().max() < 0.1


def test_overshoot_at_an_edge_is_kept() -> None:
    edge = (255 * (torch.arange(32) >= 16)).to(torch.uint8).view(1, 1, 32).expand(1, 32, 32)
    x = unit(prepare(edge))
    assert x.max() > 1.03
    assert x.min() < -0.03


@pytest.mark.parametrize("shape", [(8, 8), (1, 3, 8, 8), (1, 8, 8, 1), (1, 0, 8), (1, 1, 8, 8, 3)])
def test_other_shapes_are_refused_in_one_sentence(shape: tuple[int, ...]) -> None:
    with pytest.raises(EFCError, match=r"^images: expected uint8 .*got torch.uint8 .*; pass pixels"):
        prepare(pixels(*shape))


def test_other_types_are_refused_in_one_sentence() -> None:
    with pytest.raises(EFCError, match=r"^images: expected uint8 .*got torch.float32 \(1, 8, 8, 3\); pass pixels"):
        prepare(torch.zeros(1, 8, 8, 3))
