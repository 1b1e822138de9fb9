"""Specs of kernels of threads, as calls make them."""

from __future__ import annotations

from nbfused.backend import Signature
from nbfused.scalar.typing.types import Weak


def spec_of(kernel, *args, code="c"):
    """The spec and the signature for arguments of these types."""
    taken = kernel.flatten(kernel.arguments(args, {}))
    spec = kernel.spec(taken)
    types = tuple(v.dtype if k == "array" else Weak(type(v).__name__)
                  for k, v in zip(taken.kinds, taken.values, strict=True))
    arrays = [v for k, v in zip(taken.kinds, taken.values, strict=True) if k == "array"]
    return spec, Signature(types, (), (), tuple(f"{code}{a.ndim}" for a in arrays))
