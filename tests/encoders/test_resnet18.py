"""ResNet18 against its published layout and against a second implementation, and the files it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv2d, max_pool2d

from efc.encoders import load_encoder, prepare
from efc.encoders.resnet18 import ResNet18
from efc.errors import EFCError

# (name, d_in, d_out, stride): where the stride is 2 there is a downsample convolution.
BLOCKS = [
    ("layer1.0", 64, 64, 1), ("layer1.1", 64, 64, 1), ("layer2.0", 64, 128, 2), ("layer2.1", 128, 128, 1),
    ("layer3.0", 128, 256, 2), ("layer3.1", 256, 256, 1), ("layer4.0", 256, 512, 2), ("layer4.1", 512, 512, 1),
]  # fmt: skip
State = dict[str, Tensor]


def layout() -> list[tuple[str, tuple[int, ...]]]:
    """Keys and shapes of torchvision's ResNet18, in its order."""

    def norm(name: str, d: int) -> list[tuple[str, tuple[int, ...]]]:
        rows = [(f"{name}.{part}", (d,)) for part in ("weight", "bias", "running_mean", "running_var")]
        return [*rows, (f"{name}.num_batches_tracked", ())]

    rows = [("conv1.weight", (64, 3, 7, 7)), *norm("bn1", 64)]
    for name, d_in, d_out, stride in BLOCKS:
        rows += [(f"{name}.conv1.weight", (d_out, d_in, 3, 3)), *norm(f"{name}.bn1", d_out)]
        rows += [(f"{name}.conv2.weight", (d_out, d_out, 3, 3)), *norm(f"{name}.bn2", d_out)]
        if stride == 2:
            rows += [(f"{name}.downsample.0.weight", (d_out, d_in, 1, 1)), *norm(f"{name}.downsample.1", d_out)]
    return [*rows, ("fc.weight", (1000, 512)), ("fc.bias", (1000,))]


@pytest.fixture(scope="module")
def state() -> State:
    """Random parameters whose activations neither vanish nor explode, exact in float16."""
    g = torch.Generator().manual_seed(0)
    values: State = {}
    for key, shape in layout():
        if key.endswith("tracked"):
            values[key] = torch.tensor(7)
        elif len(shape) == 4:
            values[key] = torch.randn(shape, generator=g) * (2 / (shape[1] * shape[2] * shape[3])) ** 0.5
        elif key.endswith(("running_var", "weight")):
            values[key] = 0.5 + torch.rand(shape, generator=g)
        else:
            values[key] = 0.1 * torch.randn(shape, generator=g)
    return {key: value.half() if value.is_floating_point() else value for key, value in values.items()}


def functional(state: State, x: Tensor) -> Tensor:
    """The same features in float64, written a second time with plain functions."""
    s = {key: value.double() for key, value in state.items()}

    def conv_norm(x: Tensor, conv: str, bn: str, stride: int = 1) -> Tensor:
        W = s[f"{conv}.weight"]
        y = conv2d(x, W, stride=stride, padding=W.shape[-1] // 2)
        mean, var, scale, shift = (
            s[f"{bn}.{part}"].view(-1, 1, 1) for part in ("running_mean", "running_var", "weight", "bias")
        )
        return (y - mean) / (var + 1e-5).sqrt() * scale + shift

    x = max_pool2d(conv_norm(x.double(), "conv1", "bn1", 2).clamp(min=0), 3, 2, 1)
    for name, _, _, stride in BLOCKS:
        y = conv_norm(x, f"{name}.conv1", f"{name}.bn1", stride).clamp(min=0)
        y = conv_norm(y, f"{name}.conv2", f"{name}.bn2")
        skip = x if stride == 1 else conv_norm(x, f"{name}.downsample.0", f"{name}.downsample.1", stride)
        x = (y + skip).clamp(min=0)
    return x.flatten(2).sum(2) / x[0, 0].numel()


def saved(content: object, folder: Path) -> Path:
    torch.save(content, folder / "weights.pth")
    return folder / "weights.pth"


def test_keys_and_shapes_are_the_published_ones() -> None:
    own = [(key, tuple(value.shape)) for key, value in ResNet18().state_dict().items()]
    assert own == layout()
    assert len(own) == 122


def test_network_equals_a_second_implementation(state: State, tmp_path: Path) -> None:
    network = ResNet18()
    network.load_state(saved(state, tmp_path))
    x = torch.randn(2, 3, 64, 48, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(network.eval().double()(x), functional(state, x), rtol=1e-10, atol=1e-10)


def test_encoder_loads_the_file_and_computes_the_same_features(state: State, tmp_path: Path) -> None:
    random_state = torch.get_rng_state()
    encoder = load_encoder("resnet18", saved(state, tmp_path))
    assert torch.equal(torch.get_rng_state(), random_state)
    images = torch.randint(256, (2, 28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))
    features = encoder.features(images)
    assert (features.shape, features.dtype, encoder.dim) == ((2, 512), torch.float32, 512)
    torch.testing.assert_close(features.double(), functional(state, prepare(images)), rtol=1e-4, atol=1e-4)
    torch.nn.Linear(512, 2)(features).sum().backward()  # an inference-mode tensor would be refused here


def test_hash_follows_the_values_and_not_their_storage(state: State, tmp_path: Path) -> None:
    def digest(changed: State) -> str:
        return load_encoder("resnet18", saved(changed, tmp_path)).weights_hash

    original = digest(state)
    recast = {key: state[key].float() if state[key].is_floating_point() else state[key] for key in reversed(state)}
    assert digest(recast) == original
    shifted = state["fc.bias"].clone()
    shifted[-1] += 1
    assert digest(state | {"fc.bias": shifted}) != original


def test_batch_counts_may_be_absent(state: State, tmp_path: Path) -> None:
    network = ResNet18()
    network.load_state(saved({key: value for key, value in state.items() if "tracked" not in key}, tmp_path))
    assert torch.equal(network.fc.bias, state["fc.bias"].float())


WRONG = {
    "key 'layer2.0.bn1.weight' is missing": {"layer2.0.bn1.weight": None, "fc.bias": None},
    "key 'layer1.0.conv1.weight' has shape (64, 64, 1, 1) instead of (64, 64, 3, 3)": {
        "layer1.0.conv1.weight": torch.zeros(64, 64, 1, 1),
        "layer4.1.bn2.bias": None,
    },
    "key 'bn1.bias' holds NaN or infinite values": {"bn1.bias": torch.full((64,), torch.nan)},
    "key 'bn1.bias' holds torch.complex64": {"bn1.bias": torch.zeros(64, dtype=torch.complex64)},
    "key 'layer1.2.conv1.weight' is unexpected": {
        "layer1.2.conv1.weight": torch.zeros(1),
        "layer1.2.conv2.weight": torch.zeros(1),
    },
}


@pytest.mark.parametrize("difference", WRONG)
def test_another_network_is_refused_by_its_first_differing_key(difference: str, state: State, tmp_path: Path) -> None:
    changed = {key: value for key, value in (state | WRONG[difference]).items() if value is not None}
    network = ResNet18()
    before = network.fc.weight.clone()
    with pytest.raises(EFCError) as refusal:
        network.load_state(saved(changed, tmp_path))
    assert f"weights.pth is not a ResNet18 checkpoint ({difference}); use the file from http" in str(refusal.value)
    assert torch.equal(network.fc.weight, before)


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>", bytes(range(256)) * 40, b"PK\x03\x04 cut short"])
def test_garbage_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "weights.pth"
    path.write_bytes(content)
    with pytest.raises(EFCError, match=r"^weights: .*weights.pth is not a torch checkpoint; use the file from http"):
        ResNet18().load_state(path)


@pytest.mark.parametrize("content", [[1, 2], {"epoch": 3}, torch.zeros(2)])
def test_a_file_that_holds_something_else_is_refused(content: object, tmp_path: Path) -> None:
    with pytest.raises(EFCError, match=r"^weights: .* holds no plain state dict; use the file from http"):
        ResNet18().load_state(saved(content, tmp_path))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EFCError, match=r"^weights: cannot open .*none.pth \(No such file or directory\)"):
        ResNet18().load_state(tmp_path / "none.pth")
