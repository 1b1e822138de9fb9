"""A program: its numbers and its value in the words of each library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["RATE", "Numbers", "Program"]

RATE = 1e-3

#: Parameters, what else is given, and the cotangent of the value, None for a loss.
Numbers = tuple[list[np.ndarray], list[np.ndarray], np.ndarray | None]
#: ``value(parameters, *given)``.
Value = Callable[..., Any]


@dataclass(frozen=True)
class Program:
    """What is differentiated by all parameters, then by Adam if it `trains`.

    Attributes
    ----------
    numbers
        Makes the numbers, in float64 and integers, from a seed of their own.
    ours, torch, jax, exact
        The value in the words of each library; `exact` in those of PyTorch without
        fused functions, for float64.
    """

    name: str
    numbers: Callable[[], Numbers]
    ours: Value
    torch: Value
    jax: Value
    exact: Value
    dtype: str = "float32"
    trains: bool = True


def rounded(numbers: Sequence[np.ndarray], dtype: str) -> list[np.ndarray]:
    """Numbers as everybody starts from them: rounded to a dtype, in float64."""
    if dtype != "bfloat16":
        return [x.astype(dtype).astype(np.float64) if x.dtype.kind == "f" else x
                for x in numbers]
    import ml_dtypes

    return [x.astype(ml_dtypes.bfloat16).astype(np.float64) if x.dtype.kind == "f"
            else x for x in numbers]
