"""Numba's compiler for CUDA with the passes that generated text needs, and no others.

Kernel text has typed scalars, pointers and tuples of them, and calls intrinsics: no
closures, comprehensions, array expressions or `with` blocks.  What Numba does for these
took half of a kernel's compilation: benchmarks/notes/host.md#first-calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from numba.cuda import compiler
from numba.cuda.core import typed_passes, untyped_passes
from numba.cuda.core.compiler_machinery import PassManager
from numba.cuda.descriptor import cuda_target

__all__ = ["lean"]

_PASSES = (
    (compiler.CUDATranslateBytecode, "read bytecode"),
    (untyped_passes.FixupArgs, "fix arguments"),
    (untyped_passes.IRProcessing, "process IR"),
    (untyped_passes.GenericRewrites, "find constant indices"),
    (untyped_passes.ReconstructSSA, "single assignment"),
    (typed_passes.NopythonTypeInference, "infer types"),
    (typed_passes.PreLowerStripPhis, "remove phi nodes"),
    (compiler.CreateLibrary, "create library"),
    (compiler.CUDANativeLowering, "print LLVM text"),
    (compiler.CUDABackend, "give the result"),
)


class _Passes(PassManager):
    #: Numba repairs its IR after passes that forget to; none of these does.
    _ENFORCING = False


class _Compiler(compiler.CUDACompiler):
    def define_pipelines(self) -> list[PassManager]:
        manager = _Passes("nbfused")
        for each, title in _PASSES:
            manager.add_pass(each, title)
        manager.finalize()
        return [manager]


@contextmanager
def _cached_signatures(typing: Any) -> Iterator[None]:
    """Let a typing context look up each call's signature once.

    Numba tries all templates of an operator anew for every call and every round.
    """
    known: dict[Any, Any] = {}
    resolve = typing.resolve_function_type

    def resolve_once(function: Any, args: Any, kws: Any) -> Any:
        key = function, tuple(args)
        if kws or key not in known:
            found = resolve(function, args, kws)
            if kws or found is None:
                return found
            known[key] = found
        return known[key]

    typing.resolve_function_type = resolve_once
    try:
        yield
    finally:
        del typing.resolve_function_type


@contextmanager
def lean() -> Iterator[None]:
    """Compile with fewer passes in a ``with`` block, under the compiler's lock."""
    with (patch.object(compiler, "CUDACompiler", _Compiler),
          _cached_signatures(cuda_target.typing_context)):
        yield
