"""Numba's compiler with the passes that generated text needs, and no others.

Kernel text has typed scalars, pointers and tuples of them: no Python objects, closures,
exceptions or references to count.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, ClassVar

from numba.core import config, typed_passes, untyped_passes
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler import CompilerBase, Flags
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager
from numba.core.registry import cpu_target

__all__ = ["compile_function", "optimized", "target"]

_PASSES = (
    (untyped_passes.TranslateByteCode, "read bytecode"),
    (untyped_passes.FixupArgs, "fix arguments"),
    (untyped_passes.IRProcessing, "process IR"),
    (untyped_passes.ReconstructSSA, "single assignment"),
    (typed_passes.NopythonTypeInference, "infer types"),
    (typed_passes.PreLowerStripPhis, "remove phi nodes"),
    (typed_passes.NativeLowering, "print LLVM text"),
    (typed_passes.NoPythonBackend, "give the result"),
)


class _Passes(PassManager):
    #: Numba repairs its IR after passes that forget to; none of these does.
    _ENFORCING = False


class _Compiler(CompilerBase):
    def define_pipelines(self) -> list[PassManager]:
        manager = _Passes("nbfused")
        for each, title in _PASSES:
            manager.add_pass(each, title)
        manager.finalize()
        return [manager]


class _Library(JITCodeLibrary):
    """LLVM text of functions, without machine code.

    Machine code of kernels is the same as if Numba optimised each function by itself
    first, and takes less time: benchmarks/notes/cpu.md#compilation-on-the-cpu.
    """

    #: Whether it has the kernel, into which the other functions are inlined.
    whole = False

    def _optimize_final_module(self) -> None:
        """Optimise the kernel, not each function that is inlined into it."""
        if self.whole:
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        self._finalized = True


class _Codegen(JITCPUCodegen):
    _library_class = _Library
    _builders: ClassVar[dict[tuple[tuple[str, Any], ...], Any]] = {}

    def _pass_builder(self, **options: Any) -> Any:
        """One shared builder: llvmlite 0.45 leaks 16 kB for each.

        Where Numba times passes, each needs its own.
        """
        if config.LLVM_PASS_TIMINGS:
            return super()._pass_builder(**options)
        key = tuple(sorted(options.items()))
        if key not in self._builders:
            self._builders[key] = super()._pass_builder(**options)
        return self._builders[key]


@cache
def target() -> Any:
    """Numba's target for this processor, with machine code generation left out."""
    return cpu_target.target_context.subtarget(
        _internal_codegen=_Codegen("nbfused.text"))


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


def compile_function(context: Any, function: Any, args: tuple[Any, ...],
                     return_type: Any, inline: bool) -> Any:
    """Compile a function to LLVM text; divisions are as NumPy's.

    Parameters
    ----------
    context
        The target, or what Numba derives from it for a caller.
    function
        The Python function.
    args, return_type
        Numba's types; a `return_type` of None is inferred.
    inline
        Whether it is called by a kernel, and inlined there.
    """
    flags = Flags()
    flags.error_model = "numpy"
    flags.forceinline = inline
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    library = context.codegen().create_library(function.__name__)
    library.whole = not inline
    return _Compiler(context.typing_context, context, library, args, return_type, flags,
                     {}).compile_extra(function)


def optimized(function: Any, parameters: tuple[Any, ...]) -> Any:
    """Optimised LLVM text of a kernel and of the functions that it calls."""
    typing, context = cpu_target.typing_context, target()
    typing.refresh()
    context.refresh()
    with global_compiler_lock, _cached_signatures(typing):
        compiled = compile_function(context, function, parameters, None, inline=False)
        compiled.library.finalize()
    return compiled
