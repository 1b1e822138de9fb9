"""Numba's compiler with the passes that generated text needs, and no others.

Kernel text has typed scalars, pointers and tuples of them: no Python objects, closures,
generators, exceptions or references to count.  What is left out changes no machine
code: benchmarks/notes/cpu.md#compilation-on-the-cpu.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, ClassVar

from numba.core import cgutils, config, typed_passes, types, untyped_passes
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler import CompilerBase, Flags
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.ir_utils import build_definitions
from numba.core.lowering import Lower
from numba.core.registry import cpu_target
from numba.core.ssa import reconstruct_ssa
from numba.core.transforms import canonicalize_cfg

from ...support.generated import fewer_collections

__all__ = ["compile_function", "optimized", "target"]

@register_pass(mutates_CFG=True, analysis_only=False)
class _SingleAssignment(untyped_passes.ReconstructSSA):
    """Numba's, without the lifetimes of variables, which only generators ask for."""

    _name = "nbfused_single_assignment"

    def run_pass(self, state: Any) -> bool:
        state.func_ir.blocks = canonicalize_cfg(state.func_ir.blocks)
        state.func_ir = reconstruct_ssa(state.func_ir)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        state.func_ir.generator_info = None
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _StripPhis(typed_passes.PreLowerStripPhis):
    """Numba's, without the lifetimes of variables."""

    _name = "nbfused_strip_phis"

    def run_pass(self, state: Any) -> bool:
        state.func_ir = self._strip_phi_nodes(state.func_ir)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True


class _Lower(Lower):
    def alloca_lltype(self, name: str, lltype: Any, datamodel: Any = None) -> Any:
        """Reserve a variable; Numba asks LLVM for its size, for the debugger."""
        return cgutils.alloca_once(self.builder, lltype, name=name, zfill=False)


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(typed_passes.NativeLowering):
    _name = "nbfused_lowering"

    @property
    def lowering_class(self) -> Any:
        """The writer of a function's LLVM text."""
        return _Lower


_PASSES = (
    (untyped_passes.TranslateByteCode, "read bytecode"),
    (untyped_passes.FixupArgs, "fix arguments"),
    (_SingleAssignment, "single assignment"),
    (typed_passes.NopythonTypeInference, "infer types"),
    (_StripPhis, "remove phi nodes"),
    (_Lowering, "print LLVM text"),
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


#: Runs of passes by one builder.  Each run leaves callbacks in it, which every pass of
#: the later runs calls: benchmarks/notes/cpu.md#compilation-on-the-cpu.
_SHARED = 64


class _Codegen(JITCPUCodegen):
    _library_class = _Library
    #: Builders by their options, each with the number of its uses.
    _builders: ClassVar[dict[tuple[tuple[str, Any], ...], tuple[Any, int]]] = {}
    _checked = False

    def _check_llvm_bugs(self) -> None:
        """Parse a number, as LLVM's old bug with locales asks for: once will do."""
        if not self._checked:
            super()._check_llvm_bugs()
            self._checked = True

    def _pass_builder(self, **options: Any) -> Any:
        """A builder shared by `_SHARED` runs of passes: llvmlite 0.45 leaks 16 kB each.

        Where Numba times passes, each needs its own.
        """
        if config.LLVM_PASS_TIMINGS:
            return super()._pass_builder(**options)
        key = tuple(sorted(options.items()))
        builder, uses = self._builders.get(key, (None, 0))
        if uses % _SHARED == 0:
            builder = super()._pass_builder(**options)
        self._builders[key] = builder, uses + 1
        return builder


@cache
def target() -> Any:
    """Numba's target for this processor, with machine code generation left out."""
    return cpu_target.target_context.subtarget(
        _internal_codegen=_Codegen("nbfused.text"))


#: Signatures of calls with numbers only, which are those of operators and intrinsics:
#: kernels share them.  Types of literals and of a kernel's own functions have no end.
_LASTING: dict[Any, Any] = {}
_PLAIN = (types.Integer, types.Float, types.Complex, types.Boolean)


@contextmanager
def _cached_signatures(typing: Any) -> Iterator[None]:
    """Let a typing context look up each call's signature once.

    Numba tries all templates of an operator anew for every call and every round.
    """
    known: dict[Any, Any] = {}
    resolve = typing.resolve_function_type

    def resolve_once(function: Any, args: Any, kws: Any) -> Any:
        key = function, tuple(args)
        if not kws and (found := _LASTING.get(key) or known.get(key)):
            return found
        found = resolve(function, args, kws)
        if found is not None and not kws:
            (_LASTING if all(type(a) in _PLAIN for a in args) else known)[key] = found
        return found

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
    with global_compiler_lock, _cached_signatures(typing), fewer_collections():
        compiled = compile_function(context, function, parameters, None, inline=False)
        compiled.library.finalize()
    return compiled
