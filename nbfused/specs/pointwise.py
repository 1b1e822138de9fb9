"""Typing functions that are evaluated at points: no threads that know of each other."""

from __future__ import annotations

from functools import lru_cache

from ..errors import KernelTypeError
from ..scalar.ir.build import inline
from ..scalar.ir.nodes import ACCESSES, Function, Let, walk
from ..scalar.typing.types import Type, Typed, specialize
from .base import KEPT

__all__ = ["pointwise"]

_THREADS = {
    "thread": "where a thread is", "shared": "shared arrays", "barrier": "barriers",
    "shuffle": "shuffles", "extent": "shapes of arrays", "stride": "strides of arrays",
}


@lru_cache(maxsize=KEPT)
def pointwise(function: Function, types: tuple[Type, ...],
              arrays: frozenset[str] = frozenset()) -> Typed:
    """`specialize` of a function that no thread of a block runs.

    Parameters
    ----------
    function, types
        As for `specialize`.
    arrays
        The parameters that it may index.

    Raises
    ------
    KernelTypeError
        It uses what only threads have, or indexes a parameter that is no array.
    """
    for s in walk(inline(function).body):
        if isinstance(s, Let) and s.op in _THREADS:
            raise _error(function, s, f"{_THREADS[s.op]} are known in @nf.rawkernel "
                                      "only; make it a kernel of threads")
        if isinstance(s, Let) and s.op in ACCESSES and s.args[0] not in arrays:
            raise _error(function, s, f"'{s.args[0]}' is one element here and cannot "
                                      "be indexed; declare it 'raw' in "
                                      "nf.ElementwiseKernel, or use @nf.rawkernel")
    return specialize(function, types)


def _error(function: Function, s: Let, message: str) -> KernelTypeError:
    where = f"{function.pyfile}:{s.line}: " if function.pyfile else \
        f"line {s.line}: " if s.line else ""
    return KernelTypeError(f"{where}{function.name}: {message}")
