"""A device that is not the CPU, for machines without a GPU: ``with pretending(): ... .to(DEVICE)``.

Its tensors wrap tensors on the CPU, say that they are elsewhere, and cannot be mixed with those on the CPU: as on a
GPU, an operation on tensors of two devices is an error, and so is a tensor handed to numpy. What a GPU computes, how
fast, and recorded steps are for a real one; this finds a constant made in the wrong place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

_setup_privateuseone_for_python_backend("pretend")
CPU, DEVICE = torch.device("cpu"), torch.device("pretend:0")
ACROSS = {"aten::_to_copy", "aten::_local_scalar_dense"}
"""Operations that go from one device to another."""
WITH_INDICES = {"aten::index": 1, "aten::index_put": 2, "aten::index_put_": 2}
"""Operations whose indices may be on the CPU, and how many of their first and last tensors are no indices."""


class Pretended(Tensor):
    """A tensor on the pretended device; ``held`` has its numbers."""

    held: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, held: Tensor) -> Pretended:
        made: Any = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, held.shape, held.stride(), held.storage_offset(), dtype=held.dtype, device=DEVICE
        )
        made.held = held
        return made

    def tolist(self) -> Any:
        return self.held.tolist()

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"Pretended({self.held!r})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _call(func, args, kwargs or {})


def _call(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The operation on what the tensors hold; its results are where its arguments, or the argument ``device``, are."""
    flat, spec = tree_flatten((args, kwargs))
    name = func._schema.name
    tensors = [a for a in flat if isinstance(a, Tensor)]
    ours = [t for t in tensors if isinstance(t, Pretended)]
    if name == "aten::copy_":
        _held(args[0]).copy_(_held(args[1]))
        return args[0]
    if ours and name not in ACROSS:
        count = WITH_INDICES.get(name)
        joined = tensors if count is None else [tensors[0], *tensors[-1:]][:count]
        if any(t.dim() > 0 and not isinstance(t, Pretended) for t in joined):
            raise RuntimeError(f"{name}: tensors on two devices: {[(type(t).__name__, *t.shape) for t in tensors]}")
    wanted = kwargs.get("device")
    here = bool(ours) if wanted is None else _is_ours(wanted)
    args, kwargs = tree_unflatten([_held(a) for a in flat], spec)
    known = {id(t.held): t for t in ours}

    def wrap(out: Any) -> Any:
        if not here or not isinstance(out, Tensor):
            return out
        return known[id(out)] if id(out) in known else Pretended(out)

    return tree_map(wrap, func(*args, **kwargs))


def _held(value: Any) -> Any:
    if isinstance(value, Pretended):
        return value.held
    return CPU if isinstance(value, torch.device) and _is_ours(value) else value


def _is_ours(device: Any) -> bool:
    return device is not None and torch.device(device).type == DEVICE.type


class _Creating(TorchDispatchMode):
    """Operations that take no tensor, such as `torch.zeros`."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _call(func, args, kwargs or {})


class _Literals(TorchFunctionMode):
    """Lists of numbers, given to `torch.tensor` or as an index: torch copies them behind the dispatcher's back."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in (torch.tensor, torch.as_tensor) and _is_ours(kwargs.get("device")):
            device = kwargs.pop("device")
            if isinstance(args[0], Pretended):
                return args[0].to(**kwargs)
            return func(*args, **kwargs).to(device)
        if func in (Tensor.__getitem__, Tensor.__setitem__) and isinstance(args[0], Pretended):
            given = args[1] if isinstance(args[1], tuple) else (args[1],)
            index = tuple(torch.tensor(i).to(DEVICE) if isinstance(i, list | range) else i for i in given)
            args = (args[0], index, *args[2:])
        return func(*args, **kwargs)


@contextmanager
def pretending() -> Iterator[torch.device]:
    """In this block tensors can be made on, and moved to, the device that is yielded."""
    with _Literals(), _Creating():
        yield DEVICE
