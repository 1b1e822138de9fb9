"""Checks of results against float64, on the device of the arrays."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from math import prod
from typing import Any

import numpy as np

from .workload import Workload

__all__ = ["TOLERANCE", "Reference"]

#: Relative error, in the 2-norm, that an answer may have.
TOLERANCE = {"float64": 1e-12, "float32": 2e-5, "tfloat32": 2e-3, "float16": 4e-3,
             "bfloat16": 3e-2, "int32": 0.0}

#: Times the relative error that one element may have, beside the largest.
_OF_ELEMENT = 20

#: A result that is so small beside another one is 0, and its float64 one is rounding
#: errors: of layer_norm's gradients where a row has one element.
_NOTHING = 1e-10


class Reference:
    """A workload's results in float64, by PyTorch or NumPy.

    Raises
    ------
    NotImplementedError
        Neither can.
    """

    def __init__(self, work: Workload, arrays: Sequence[Any]) -> None:
        self.tolerance = TOLERANCE[work.dtype]
        self.wanted: list[Any] = _by_torch(work, arrays) if find_spec("torch") \
            else _by_numpy(work, arrays)
        self.room = _at_the_kink(work, arrays) if find_spec("torch") else []

    def fault(self, outcome: Any) -> str | None:
        """Describe an error in a library's results, or None."""
        found = outcome if isinstance(outcome, (list, tuple)) else [outcome]
        if len(found) != len(self.wanted):
            return f"{len(found)} results, not {len(self.wanted)}"
        largest = max(map(_size, self.wanted))
        for k, (got, want) in enumerate(zip(found, self.wanted, strict=True)):
            got, want = _double(got, want), _stored(want, got)
            if self.room and tuple(got.shape) == tuple(want.shape):
                got = want + (abs(got - want) - self.room[k]).clip(0)
            off = _error(got, want, largest)
            if not off <= self.tolerance:
                return f"result {k} is off by {off:.1e}"
            off = _error_of_element(got, want, largest)
            if not off <= _OF_ELEMENT*self.tolerance:
                return f"result {k} has an element that is off by {off:.1e}"
        return None


def _by_torch(work: Workload, arrays: Sequence[Any]) -> list[Any]:
    from .words.of_torch import reference

    found = reference(work, arrays)
    return found if found[0].is_cuda else [t.numpy() for t in found]


def _at_the_kink(work: Workload, arrays: Sequence[Any]) -> list[Any]:
    """How far rounding may move each element where a function has a kink."""
    from .words.of_torch import at_the_kink

    found = at_the_kink(work, arrays)
    return [t if t.is_cuda else t.numpy() for t in found]


def _by_numpy(work: Workload, arrays: Sequence[Any]) -> list[Any]:
    from .words.of_arrays import families

    if work.both or work.dtype == "bfloat16" or work.family not in families("numpy"):
        raise NotImplementedError("nothing to check it with")
    doubles = [a.astype(np.float64) if a.dtype.kind not in "iu" else a for a in arrays]
    found = families("numpy")[work.family](*doubles, **work.options)
    return list(found) if isinstance(found, tuple) else [np.asarray(found)]


def _double(x: Any, like: Any) -> Any:
    """Convert `x` to float64, in the library and on the device of `like`."""
    if isinstance(like, np.ndarray):
        x = x.detach().double().numpy() if hasattr(x, "detach") else x
        return np.asarray(x, np.float64)
    return _tensor(x).to(like)


def _tensor(x: Any) -> Any:
    import torch

    return (x if isinstance(x, torch.Tensor) else torch.from_dlpack(x)).detach()


def _stored(want: Any, like: Any) -> Any:
    """Round `want` as results are stored, to the dtype of `like`, and back.

    Of numbers near float16's smallest ones, 6e-8, nothing more can be stored: softmax
    over a million elements has such ones, and so has the gradient of a mean.
    """
    if isinstance(want, np.ndarray):
        dtype = np.dtype(str(like.dtype).removeprefix("torch."))
        return want.astype(dtype).astype(want.dtype) if dtype.kind in "fV" else want
    tensor = _tensor(like)
    return want.to(tensor.dtype).to(want) if tensor.is_floating_point() else want


def _error(got: Any, want: Any, largest: float) -> float:
    """The relative error in the 2-norm, of what vanishes beside `largest`."""
    if tuple(got.shape) != tuple(want.shape):
        return float("inf")
    scale = _size(want)
    return _size(got - want) / (
        (largest or 1.0) if scale <= _NOTHING * largest else scale)


def _error_of_element(got: Any, want: Any, largest: float) -> float:
    """The largest error of an element beside the largest element, as `_error`."""
    if not prod(want.shape) or _size(want) <= _NOTHING*largest:
        return 0.0
    return float(abs(got - want).max()/abs(want).max())


def _size(x: Any) -> float:
    """The 2-norm."""
    if isinstance(x, (np.ndarray, np.generic)):  # numbers: a difference of 0-d arrays
        return float(np.linalg.norm(x.reshape(-1)))
    return float(x.double().norm())  # also of integers
