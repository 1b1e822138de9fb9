"""`Fused`: what `fuse` makes of a function, its calls and what it keeps."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import partial, update_wrapper
from types import MethodType
from typing import Any, NamedTuple, TypeVar

from ...arrays.detect import is_symbolic
from ...autograd.compilers.dynamo import called_whole, unread
from ...autograd.numpy_api.of_cupy import looking_at_arguments
from ...errors import KernelTypeError, NbFusedError, NbFusedPerformanceWarning
from ...support.display import SourceText
from ...support.generated import fewer_collections
from ...support.pickling import PickledByName
from .ahead import compile_ahead, expect_kernels
from .arguments import Arguments
from .buffers.flat import call_on
from .compiled_calls import CompiledCalls
from .explaining.explain import Explanation, explain
from .explaining.source import source
from .kept import CacheInfo, KeptPrograms
from .outside.attributes import AskedIntegers, AttributeNumbers
from .outside.changes import Changed, with_changes
from .outside.host_arrays import making_arrays
from .outside.lines import add_line
from .outside.made_tensors import making_tensors
from .outside.memories import Site
from .outside.scope import Outside, Scope
from .plans.plan import Plan
from .plans.planning import Plans, read
from .plans.segments import SegmentedPlan
from .program import Program, TraceInvalid
from .readers import Reader, make_reader
from .trace import Trace

__all__ = ["Fused"]

T = TypeVar("T")

#: Structures of arguments that are read by generated functions; to generate one takes
#: as long as hundreds of calls, which does not pay where each call has another.
_READERS = 8


class Traced(NamedTuple):
    """A program, and the names of what it reads that may change unseen."""

    program: Program
    unstable: list[Any]


class _TraceAgainError(Exception):
    """Raised where a number has to be constant, or an array one of the program."""


class Fused(PickledByName):
    """A function of arrays that runs in as few launches as possible.

    Attributes
    ----------
    kernel_name : str
        What its kernels are called.
    warned : bool
        Whether it has warned that each call traces it anew.
    """

    def __init__(self, function: Callable[..., Any], kernel_name: str | None) -> None:
        update_wrapper(self, function, updated=())
        called_whole(self)
        self.function = function
        name = getattr(function, "__name__", type(function).__name__)
        self.kernel_name: str | Any = kernel_name or name.replace("<lambda>", "fused")
        try:
            self.signature: inspect.Signature = inspect.signature(function)
        except ValueError as error:
            raise KernelTypeError(f"nf.fuse: {function!r} does not say what it takes; "
                                  "write a function that calls it") from error
        self._given_name = kernel_name
        self._scope = Scope(function)
        kinds = {p.kind for p in self.signature.parameters.values()}
        self._names = tuple(self.signature.parameters) if kinds <= {
            inspect.Parameter.POSITIONAL_OR_KEYWORD} else None
        self._programs = KeptPrograms()
        self._plans = Plans()
        self._readers: list[Reader] = []
        self.warned = False
        self._numbers, self._asked = AttributeNumbers(), AskedIntegers()
        self._traced_sites: set[Site] = set()
        self._calls = CompiledCalls(self, self._scope, self._bind)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function.

        Parameters
        ----------
        *args, **kwargs
            Arrays of one library, Variables, and numbers, also in tuples, lists and
            dictionaries that hold arrays.  Numbers are passed by value: a new one
            traces nothing; integers and flags among the arguments that the function
            asks for (``if training:``, ``range(steps)``) are constants.  So is
            everything else, and what is left to its default.

        Raises
        ------
        KernelTypeError
            The function asks for the numbers in an array (``if x > 0``), changes part
            of an array, or calls what cannot be traced; or arguments are missing, or
            too many.
        OverlapError
            An argument that it changes in place shares memory with another.
        """
        outside = self._scope.look()
        reader, read_now = self._read(args, kwargs, outside)
        if reader is not None and read_now is not None:
            plan = reader.find(read_now[1], outside.keys)
            made = plan and self._run_plan(plan, read_now[0], read_now[2])
            if made:
                return self._finish(made[0], args, kwargs, outside)
        return unread(partial(self._call, args, kwargs, outside, reader, read_now))()

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any], outside: Outside,
              reader: Reader | None, read_now: Any) -> Any:
        """A call whose arguments no reader has a plan for."""
        given, outside = self._given(args, kwargs, outside)
        symbolic = any(map(is_symbolic, given.leaves))
        if symbolic and not given.traced:
            return self._calls(args, kwargs, given, outside)
        if not given.arrays or given.traced:
            return self.function(*args, **kwargs)
        leaves = given.leaves
        constants = (tuple(given.constants), outside.keys)
        layout = read(leaves)
        if layout is not None:
            planned = self._plans.find((layout[0], constants))
            made = planned and self._run_plan(planned, leaves, layout[1])
            if planned is not None and made:
                self._remember(reader, read_now, planned, args, kwargs, outside)
                return self._finish(made[0], args, kwargs, outside)
        key = (given.types(), constants)
        found = self._programs.find(key, given)
        if found is not None:
            try:
                return self._finish(self._run(found, leaves, layout, constants),
                                    args, kwargs, outside)
            except TraceInvalid:
                pass  # what was traced does not hold for these numbers
        if self._numbers.pass_changed(given):
            self._readers = []
            return self(*args, **kwargs)
        expect_kernels(self._scope, leaves)
        try:
            trace, program = self._trace(given, self._bind(args, kwargs), outside)
        except _TraceAgainError:
            return self(*args, **kwargs)
        except Exception:
            if not outside.arrays:
                raise
            return self._without_hidden(lambda: self(*args, **kwargs))
        unstable = _unstable(trace, given, outside)
        if unstable:
            self._warn([x if isinstance(x, str) else f"an array of shape {x.shape}"
                        for x in unstable])
        else:
            self._programs.keep(program, key, given, trace.exact)
            self._asked.note_traced(self.kernel_name, given.named)
        try:
            made = self._run(program, leaves, None if unstable else layout, constants)
            return self._finish(made, args, kwargs, outside)
        except TraceInvalid:
            raise KernelTypeError(
                f"fuse: a function that {self.kernel_name} calls gives results of "
                "another shape or dtype each time; call it outside of the fused "
                "function") from None

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """Tell what a call with these arguments launches, and what that saves.

        Nothing is launched and nothing is changed, but the function may be traced.

        Returns
        -------
        Explanation
            The launches in their order; shown as a table.

        Raises
        ------
        KernelTypeError
            There is no array among the arguments, or the function cannot be traced.

        Examples
        --------
        >>> import numpy as np, nbfused as nf
        >>> spread = nf.fuse(lambda x: np.sqrt((x - x.mean()) ** 2).sum())
        >>> found = spread.explain(np.ones(1000))
        >>> [launch.operations for launch in found]
        [('sum__mean',), ('subtract', 'square', 'sqrt', 'sum_sum')]
        >>> found.bytes, found.unfused_bytes
        (16024, 64024)
        """
        outside = self._scope.look()
        given, outside = self._given(args, kwargs, outside)
        if not given.arrays or given.traced:
            raise KernelTypeError(f"{self.kernel_name}.explain: no argument is an "
                                  "array; pass what the function is called with")
        key = given.types(), (tuple(given.constants), outside.keys)
        found = self._programs.find(key, given)
        try:
            return explain(found or self._trace(given, self._bind(args, kwargs),
                                                outside)[1])
        except _TraceAgainError:
            return self.explain(*args, **kwargs)
        except Exception:
            if not outside.arrays:
                raise
            return self._without_hidden(lambda: self.explain(*args, **kwargs))

    def made_of(self) -> tuple[Any, ...]:
        """The function and the name."""
        return self.function, self._given_name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def _bind(self, args: tuple[Any, ...],
              kwargs: dict[str, Any]) -> inspect.BoundArguments:
        try:
            return self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise KernelTypeError(
                f"{self.kernel_name}{self.signature}: {error}") from None

    def _named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by name."""
        if self._names is not None and not kwargs and len(args) == len(self._names):
            return dict(zip(self._names, args, strict=True))
        return dict(self._bind(args, kwargs).arguments)

    def _given(self, args: tuple[Any, ...], kwargs: dict[str, Any],
               outside: Outside) -> tuple[Arguments, Outside]:
        """The arguments; and the values outside, which methods of theirs read, too."""
        named = self._named(args, kwargs)
        varying, asked = self._numbers.varying, self._asked.names
        given = Arguments(named, outside.arrays, varying, asked)
        if self._scope.add_classes(given.classes):
            outside = self._scope.look()
            given = Arguments(named, outside.arrays, varying, asked)
        return given, outside

    def _read(self, args: tuple[Any, ...], kwargs: dict[str, Any],
              outside: Outside) -> tuple[Reader | None, Any]:
        """The reader that knows such arguments, and what it read of these."""
        for reader in self._readers:
            found = reader.read(args, kwargs, outside.arrays)
            if found is not None:
                return reader, found
        return None, None

    def _remember(self, reader: Reader | None, read_now: Any,
                  plan: Plan | SegmentedPlan, args: tuple[Any, ...],
                  kwargs: dict[str, Any], outside: Outside) -> None:
        """Let later calls like this one find its plan at once."""
        if reader is None and len(self._readers) < _READERS:
            reader = make_reader(self.signature, args, kwargs, outside.arrays,
                                 plan.headers, self._numbers.varying,
                                 self._asked.names)
            read_now = reader and reader.read(args, kwargs, outside.arrays)
            if reader is not None:
                self._readers.append(reader)
        if reader is not None and read_now is not None:
            reader.keep(read_now[1], outside.keys, plan)

    def _run_plan(self, plan: Plan | SegmentedPlan, leaves: list[Any],
                  pointers: tuple[int, ...]) -> tuple[Any] | None:
        """Run a plan: its result in a tuple; None if it is not for these arguments."""
        try:
            made = plan.run(leaves, pointers)
        except TraceInvalid:  # as the program will find, too
            return None
        if made is not None:
            self._programs.count_hit()
        return made

    def _run(self, program: Program, leaves: list[Any],
             layout: tuple[Any, Any] | None, constants: Any) -> Any:
        if not program.compiled:
            program.compiled = True
            with fewer_collections():
                compile_ahead(program, leaves)
        if layout is None:
            return program.run(leaves)
        return self._plans.run(program, leaves, (layout[0], constants))

    def _without_hidden(self, call: Callable[[], T]) -> T:
        """Call again where arrays outside are not used as arguments can be.

        They are no hidden arguments from then on, unless that fails as well.
        """
        self._scope.stop_hiding()
        try:
            return call()
        except BaseException:
            self._scope.hides = True
            raise

    def _trace(self, given: Arguments, bound: inspect.BoundArguments,
               outside: Outside) -> tuple[Trace, Program]:
        """Run the function on symbols that record its operations."""
        trace = Trace(self.kernel_name, given.tensors, self._traced_sites)
        call, copies = call_on(trace.argument, self._scope, bound, given)
        try:
            with trace.recording(), trace.watch, making_arrays(trace), \
                    making_tensors(trace), looking_at_arguments(trace.made_by_user), \
                    fewer_collections():
                result = call()
            self._scope.check_rebound()
            return trace, trace.program(with_changes(result, copies, self.kernel_name))
        except Exception as error:
            # A library may catch a refusal, and fail of what it does instead.
            refused = [error] if isinstance(error, NbFusedError) else trace.refused
            if not refused:
                raise
            add_line(refused[0])
            trace.watch.rewind()  # it may be called again
            if self._learns(trace, given):
                raise _TraceAgainError from error
            if refused[0] is error:
                raise
            raise refused[0] from error

    def traced(self, *args: Any, **kwargs: Any) -> Traced:
        """Trace a call with arrays like these, whose elements are not looked at."""
        given, outside = self._given(args, kwargs, self._scope.look())
        try:
            trace, program = self._trace(given, self._bind(args, kwargs), outside)
        except _TraceAgainError:
            return self.traced(*args, **kwargs)
        return Traced(program, _unstable(trace, given, outside))

    def _learns(self, trace: Trace, given: Arguments) -> bool:
        """Whether a trace that was refused tells how to trace again."""
        asked = trace.asked_numbers
        if self._asked.keep_constant(asked, given.named) or \
                self._numbers.keep_constant(asked):
            self._readers = []
            return True
        new = trace.asked_sites - self._traced_sites
        self._traced_sites |= new
        return bool(new)

    def _finish(self, made: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
                outside: Outside) -> Any:
        """Assign what the function assigns, and give its result."""
        if type(made) is not Changed:
            return made
        return made.assign({**self._named(args, kwargs), **outside.arrays})

    def _warn(self, unstable: list[str]) -> None:
        if not self.warned:
            self.warned = True
            warnings.warn(
                f"fuse: {self.kernel_name} reads {', '.join(unstable)}, which may be "
                "another at the next call, so that it is traced at each call; pass "
                "arrays as arguments", NbFusedPerformanceWarning, stacklevel=3)

    def cache_info(self) -> CacheInfo:
        """Counts of calls that found a program, and of programs that are kept.

        A program is found by the dtypes and ranks of the arrays, the types of the
        numbers, and which extents are equal, 0 or 1; by the shapes themselves where the
        function has looked at them.
        """
        return self._programs.info()

    def clear_cache(self) -> None:
        """Forget all programs and counts; compiled kernels stay where they are."""
        self._programs.clear()
        self._plans.clear()
        self._readers = []

    def source(self, kind: str = "primal") -> str:
        """Text of the kernels of all programs: ``"primal"``, ``"vjp"`` or ``"jvp"``."""
        launches = [one for program in self._programs.values()
                    for one in program.launches]
        return SourceText("\n".join(source(one, kind) for one in launches) or
                          f"# {self.kernel_name} was not traced yet: call it first\n")

    def __repr__(self) -> str:
        return f"<nbfused fuse {self.kernel_name}{self.signature}>"


def _unstable(trace: Trace, given: Arguments, outside: Outside) -> list[Any]:
    """Names and arrays that a trace read and the next call may find changed."""
    return [*outside.unstable, *given.unstable, *(
        x for v, x in trace.constants.items() if v not in trace.known),
            *trace.watch.found]
