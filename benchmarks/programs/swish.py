"""The sum of swish and its gradient: two passes that one launch can make."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import nbfused as nf

from .program import Numbers, Program

__all__ = ["swish"]


def swish(name: str, size: int) -> Program:
    """So many elements."""
    return Program(name, partial(_numbers, size), _ours, _torch, _jax, _exact,
                   trains=False)


def _numbers(size: int) -> Numbers:
    return [np.random.default_rng(2).normal(size=size)], [], None


def _ours(parameters: Any) -> Any:
    return nf.ops.sum(nf.ops.swish(parameters[0]))


def _torch(parameters: Any) -> Any:
    import torch.nn.functional as F

    return F.silu(parameters[0]).sum()


def _exact(parameters: Any) -> Any:
    import torch

    (x,) = parameters
    return (x * torch.sigmoid(x)).sum()


def _jax(parameters: Any) -> Any:
    import jax

    return jax.nn.silu(parameters[0]).sum()
