"""Numba's compiler for CUDA with the passes that generated text needs, and no others.

Kernel text has typed scalars, pointers and tuples of them, and calls intrinsics: no
closures, comprehensions, array expressions or `with` blocks.  What Numba does for these
took half of a kernel's compilation: benchmarks/notes/host.md#first-calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any
from unittest.mock import patch

from numba.core.types.functions import BaseFunction
from numba.cuda import cgutils, compiler
from numba.cuda.core import interpreter, ir, ssa, typed_passes, untyped_passes
from numba.cuda.core.analysis import compute_use_defs
from numba.cuda.core.compiler_machinery import PassManager, register_pass
from numba.cuda.core.postproc import PostProcessor, VariableLifetime
from numba.cuda.core.transforms import canonicalize_cfg
from numba.cuda.lowering import CUDALower

from ...support.generated import fewer_collections

__all__ = ["lean"]


class _Lower(CUDALower):
    def _find_singly_assigned_variable(self) -> None:
        """Note the variables that one statement sets and only its block reads.

        Numba searches the block's statements for each of its variables.
        """
        blocks = self.func_ir.blocks
        found = compute_use_defs(blocks)
        times = Counter(statement.target.name for block in blocks.values()
                        for statement in block.find_insts(ir.assign_types))
        read = set().union(*found.usemap.values())
        self._singly_assigned_vars = {
            name for names in found.defmap.values() for name in names
            if times[name] == 1 and name not in read}
        self._blk_local_varmap: dict[str, Any] = {}

    def alloca_lltype(self, name: str, lltype: Any, datamodel: Any = None) -> Any:
        """Memory for a variable, of whose size no debugger is told."""
        return cgutils.alloca_once(self.builder, lltype, name=name, zfill=False)


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(compiler.CUDANativeLowering):
    _name = "nbfused_cuda_lowering"

    @property
    def lowering_class(self) -> Any:
        """The writer of a function's LLVM text."""
        return _Lower


@register_pass(mutates_CFG=False, analysis_only=False)
class _PhiAssignments(typed_passes.PreLowerStripPhis):
    """Assignments at the ends of blocks in place of phi nodes.

    Numba compares each of them with all of a block's statements, field by field.
    """

    _name = "nbfused_phi_assignments"

    def _strip_phi_nodes(self, function: Any) -> Any:
        phis = {id(statement): statement for block in function.blocks.values()
                for statement in block.find_insts(ir.assign_types)
                if isinstance(statement.value, ir.expr_types)
                and statement.value.op == "phi"}
        given: dict[int, list[tuple[Any, Any]]] = {}
        for phi in phis.values():
            for label, value in zip(phi.value.incoming_blocks,
                                    phi.value.incoming_values, strict=True):
                given.setdefault(label, []).append((phi.target, value))
        made = {}
        for label, block in function.blocks.items():
            made[label] = new = copy(block)
            new.body = [s for s in block.body if id(s) not in phis]
            for target, value in given.get(label, ()):
                _assign(new, target, value, function.loc)
        function.blocks = made
        return function


def _assign(block: Any, target: Any, value: Any, start: Any) -> None:
    """Assign to a phi node's target, as soon as the block has the value."""
    if value is ir.UNDEFINED:
        value = ir.Expr.null(loc=start)
    name = value.name if isinstance(value, ir.var_types) else None
    for k in range(len(block.body) - 1, -1, -1):
        statement = block.body[k]
        if name and isinstance(statement, ir.assign_types) and \
                statement.target.name == name:
            block.body.insert(k + 1, ir.Assign(target=target, value=value,
                                               loc=value.loc))
            return
    place = block.terminator.loc if block.is_terminated else block.loc
    block.prepend(ir.Assign(target=target, value=value, loc=place))


_PASSES = (
    (compiler.CUDATranslateBytecode, "read bytecode"),
    (untyped_passes.FixupArgs, "fix arguments"),
    (untyped_passes.IRProcessing, "process IR"),
    (untyped_passes.GenericRewrites, "find constant indices"),
    (untyped_passes.ReconstructSSA, "single assignment"),
    (typed_passes.NopythonTypeInference, "infer types"),
    (_PhiAssignments, "remove phi nodes"),
    (typed_passes.IRLegalization, "end lifetimes"),
    (compiler.CreateLibrary, "create library"),
    (_Lowering, "print LLVM text"),
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
def _cached_signatures() -> Iterator[None]:
    """Let each call's signature be looked up once.

    Numba tries all templates of an operator anew for every call and every round, and
    for every call that it prints.
    """
    known: dict[Any, Any] = {}
    resolve = BaseFunction.get_call_type

    def resolve_once(self: Any, context: Any, args: Any, kws: Any) -> Any:
        key = self, tuple(args)
        if kws or key not in known:
            found = resolve(self, context, args, kws)
            if kws or found is None:
                return found
            known[key] = found
        return known[key]

    with patch.object(BaseFunction, "get_call_type", resolve_once):
        yield


class _Rewriting:
    """Rewriting of blocks for one variable at a time, in statements that name it.

    Numba copies all blocks twice for each variable with several assignments, and looks
    at each statement.
    """

    def __init__(self) -> None:
        #: By a statement's address, itself and the variables that it names.
        self._names: dict[int, tuple[Any, frozenset[str]]] = {}
        #: By a body's address, itself and where it names each variable.
        self._known: dict[int, tuple[list[Any], dict[str, list[int]]]] = {}

    def __call__(self, blocks: dict[int, Any], states: dict[str, Any],
                 handler: Any) -> dict[int, Any]:
        """The blocks, rewritten by a handler."""
        return {label: self._block(label, block, states, handler)
                for label, block in blocks.items()}

    def _block(self, label: int, block: Any, states: dict[str, Any],
               handler: Any) -> Any:
        places = self._places(block.body)
        own = places.get(states["varname"])
        if not own:
            return block
        states["label"], states["block"] = label, block
        made = ir.Block(scope=block.scope, loc=block.loc)
        made.body = body = list(block.body)
        places = dict(places)
        for k in own:
            old = body[k]
            assigns = isinstance(old, ir.assign_types)
            new = body[k] = handler.on_assign(states, old) if assigns else \
                handler.on_other(states, old)
            if new is not old:
                _move(places, k, self._named(old), self._named(new))
        self._known[id(body)] = body, places
        return made

    def _places(self, body: list[Any]) -> dict[str, list[int]]:
        found = self._known.get(id(body))
        if found is None:
            places: dict[str, list[int]] = {}
            for k, statement in enumerate(body):
                for name in self._named(statement):
                    places.setdefault(name, []).append(k)
            found = self._known[id(body)] = body, places
        return found[1]

    def _named(self, statement: Any) -> frozenset[str]:
        found = self._names.get(id(statement))
        if found is None:
            names = frozenset(v.name for v in statement.list_vars())
            found = self._names[id(statement)] = statement, names
        return found[1]


def _move(places: dict[str, list[int]], k: int, before: frozenset[str],
          after: frozenset[str]) -> None:
    """Note what statement `k` names now; lists may be shared, and are not changed."""
    for name in before - after:
        places[name] = [place for place in places[name] if place != k]
    for name in after - before:
        places[name] = [*places.get(name, ()), k]


def _process(self: Any, emit_dels: bool = False, extend_lifetimes: bool = False,
             ) -> None:
    """Do what follows each pass, without the variables that generators would keep.

    In place of `PostProcessor.run`.
    """
    function = self.func_ir
    function.blocks = canonicalize_cfg(function.blocks)
    function.variable_lifetime = VariableLifetime(function.blocks)
    function.generator_info = None
    if emit_dels:
        self._insert_var_dels(extend_lifetimes=extend_lifetimes)


@contextmanager
def lean() -> Iterator[None]:
    """Compile with fewer passes in a ``with`` block, under the compiler's lock."""
    with (patch.object(compiler, "CUDACompiler", _Compiler), _cached_signatures(),
          patch.object(PostProcessor, "run", _process),
          patch.object(interpreter, "peep_hole_delete_with_exit", lambda found: found),
          patch.object(ssa, "_run_block_rewrite", _Rewriting()), fewer_collections()):
        yield
