"""Input arrays, equal for all libraries and made on their device."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from ml_dtypes import bfloat16
from numpy.lib.stride_tricks import as_strided

from .workload import Input, Workload

__all__ = ["copies", "cotangent_of", "inputs_of"]

#: Factor of normal numbers that are stored as integers.
_WHOLE = 100


def inputs_of(work: Workload, device: str) -> list[Any]:
    """A workload's inputs: PyTorch tensors on a GPU, NumPy arrays on the cpu."""
    if device == "cpu":
        rng = np.random.default_rng(0)
        return [_array(given, work.storage, rng) for given in work.inputs]
    import torch

    generator = torch.Generator(device).manual_seed(0)
    return [_tensor(given, work.storage, generator) for given in work.inputs]


def cotangent_of(shape: tuple[int, ...], storage: str, device: str) -> Any:
    """The cotangent that starts every backward pass; 1 for a scalar."""
    if device == "cpu":
        drawn = np.random.default_rng(1).standard_normal(shape, np.float32) if shape \
            else np.ones((), np.float32)
        return drawn.astype(_dtype(storage))
    import torch

    generator = torch.Generator(device).manual_seed(1)
    dtype = getattr(torch, storage)
    return torch.randn(shape, generator=generator, device=device).to(dtype) if shape \
        else torch.ones((), device=device, dtype=dtype)


def copies(arrays: Sequence[Any]) -> list[Any]:
    """Copies of arrays."""
    return [a.copy() if isinstance(a, np.ndarray) else a.clone() for a in arrays]


def _dtype(storage: str) -> Any:
    return bfloat16 if storage == "bfloat16" else np.dtype(storage)


def _stored(given: Input) -> tuple[int, ...]:
    """The shape of the memory that an input is a view of."""
    if given.transposed:
        *batch, rows, columns = given.shape
        return (*batch, columns, rows)
    match given.layout:
        case "strided":
            return (*given.shape[:-1], 2*given.shape[-1])
        case "broadcast":
            return (1, *given.shape[1:])
        case "unaligned":
            return (prod(given.shape) + 1,)
    return given.shape


def _laid_out(stored: Any, given: Input) -> Any:
    """View memory, of NumPy or PyTorch, in the layout of an input."""
    if given.transposed:
        return stored.swapaxes(-1, -2)
    match given.layout:
        case "strided":
            return stored[..., ::2]
        case "broadcast" if isinstance(stored, np.ndarray):
            return as_strided(stored, given.shape, (0, *stored.strides[1:]))
        case "broadcast":
            return stored.expand(given.shape)
        case "unaligned":
            return stored[1:].reshape(given.shape)
    return stored


def _array(given: Input, storage: str, rng: np.random.Generator) -> np.ndarray:
    if given.classes:
        return rng.integers(0, given.classes, given.shape)
    drawn = rng.standard_normal(_stored(given), dtype=np.float32)
    drawn = np.square(drawn) if given.squared else drawn
    drawn = drawn*_WHOLE if storage.startswith("int") else drawn
    return _laid_out(drawn.astype(_dtype(storage)), given)


def _tensor(given: Input, storage: str, generator: Any) -> Any:
    import torch

    device = generator.device
    if given.classes:
        return torch.randint(given.classes, given.shape, generator=generator,
                             device=device)
    drawn = torch.randn(_stored(given), generator=generator, device=device)
    drawn = drawn.square() if given.squared else drawn
    drawn = drawn*_WHOLE if storage.startswith("int") else drawn
    return _laid_out(drawn.to(getattr(torch, storage)), given)
