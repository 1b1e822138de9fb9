"""Programs that fused functions run at each call: numbers, launches, stores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...arrays import byte_range, describe, dtype_of, may_overlap
from ...autograd import Variable, apply
from ...autograd.graph import COPY
from ...dispatch import execute
from ...dispatch.outputs import check_distinct, check_output
from ...errors import OverlapError
from ...scalar.typing.python_numbers import number_type
from ...specs import View
from ...specs.fusion.graph import Launch, Node, Value, live
from ...specs.fusion.order import begun_early
from ...specs.fusion.partition import partition
from ...support import trees
from ...support.records import record
from .parts import is_view_of, memory_of

if TYPE_CHECKING:
    from .calling.exchange import Exchange
    from .trace import Trace

__all__ = [
    "HostCall",
    "Logged",
    "Opaque",
    "Program",
    "TraceInvalid",
    "check_apart",
    "data_of",
    "detach",
    "evaluate",
    "map_tree",
    "read_by",
    "run_check",
    "run_opaque",
    "tree_values",
]


class TraceInvalid(Exception):
    """Raised where a trace does not hold for a call."""


@record(frozen=True)
class HostCall:
    """A number computed in Python."""

    value: Value
    function: Callable[..., Any]
    args: tuple[Any, ...]


@record(frozen=True, eq=False)
class Opaque:
    """A function that is called as it is, on arrays.

    Attributes
    ----------
    views
        For each result the position of the argument whose memory it is in, or None.
    exchange
        The call between processes that it is, or begins.
    awaits
        Whether it waits for one that another has begun.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    single: bool
    views: tuple[int | None, ...] = (None,)
    exchange: Exchange | None = None
    awaits: bool = False
    #: It is no spec that shows the elements of an array in another order.
    rearranges = False

    @property
    def launches(self) -> bool:
        """Tell that it does something."""
        return not self.awaits


@record
class Logged:
    """A launch of a program, as it was run: with the arrays themselves.

    Attributes
    ----------
    out
        For each output the array that it was stored into, or None.
    like
        As for `dispatch.execute`.
    """

    launch: Launch
    inputs: Sequence[Any]
    out: Sequence[Any] | None
    results: Sequence[Any]
    like: Any = None


@record
class Program:
    """Launches in order, and what surrounds them.

    Attributes
    ----------
    arguments
        What stands for the arrays and numbers that are given, in order.
    constants
        Arrays that are no arguments.
    stores
        For each argument that is changed in place, its new value.
    outputs
        What is returned: a tree of values.
    direct
        For each launch, what it stores into arguments itself.
    last
        For each launch, the values that nobody reads after it.
    compiled
        Whether its kernels were compiled ahead.
    """

    arguments: Sequence[Value]
    constants: Mapping[Value, Any]
    numbers: Sequence[HostCall]
    checks: Sequence[tuple[Callable[[Any], None], Any]]
    launches: Sequence[Launch]
    stores: Mapping[Value, Value]
    outputs: Any
    direct: list[tuple[Value | None, ...] | None] = field(default_factory=list)
    last: list[tuple[Value, ...]] = field(default_factory=list)
    compiled: bool = False

    @classmethod
    def from_trace(cls, trace: Trace, outputs: Any,
                   stores: Mapping[Value, Value],
                   effects: Sequence[Value] = (), whole: bool = True) -> Program:
        """The program of what has been traced so far.

        If that is not the whole, the graph is left as it is: more is going to read it.
        """
        wanted = [*tree_values(outputs), *stores.values(),
                  *(v for _, v in trace.checks), *effects]
        if trace.exchanges:
            wanted += _ends(trace, wanted)
        launches = begun_early(
            partition(trace.nodes, wanted, trace.name, stores, whole),
            begins=lambda one: isinstance(one.spec, Opaque) and bool(one.spec.exchange),
            awaits=lambda one: isinstance(one.spec, Opaque) and one.spec.awaits,
            last=set(stores.values()))
        trace.exact |= any(launch.exact for launch in launches)
        made = cls(tuple(trace.given), trace.constants, tuple(trace.numbers),
                   tuple(trace.checks), launches, stores, outputs)
        made._place(set(wanted))
        return made

    def _place(self, wanted: set[Value]) -> None:
        """Find which launches store into arguments, and when values are let go."""
        target = {new: own for own, new in self.stores.items()}
        kept, later = wanted | set(self.stores), set[Value]()
        viewed = _bases(wanted)
        looked_at = {v for _, v in self.checks}
        for launch in reversed(self.launches):
            if isinstance(launch.spec, Opaque) or \
                    not looked_at.isdisjoint(launch.outputs):
                target = {}  # it may fail, or find that all is to be traced again
            own = tuple(target.get(v) for v in launch.outputs)
            read = {v for v in launch.inputs if isinstance(v, Value)}
            viewed |= _bases(read)
            fits = any(own) and (later | viewed).isdisjoint(own) and \
                launch.spec.launches and all(
                    x is None or x not in own or launch.spec.reads_in_place(k)
                    for k, x in enumerate(launch.inputs) if isinstance(x, Value))
            self.direct.append(own if fits else None)
            self.last.append(tuple((read | set(launch.outputs)) - later - kept))
            later |= read
        self.direct.reverse()
        self.last.reverse()

    def run(self, arguments: Sequence[Any], log: list[Logged] | None = None,
            apart: bool = False) -> Any:
        """Compute the outputs from the arguments.

        Parameters
        ----------
        log
            To which is added what is launched.
        apart
            Whether those that are changed share no memory, but with views of theirs.

        Raises
        ------
        TraceInvalid
            A number has another type than when it was traced, or a called function
            another result.
        """
        given = dict(zip(self.arguments, arguments, strict=True))
        env = {**self.constants, **given}
        for number in self.numbers:
            env[number.value] = evaluate(number, env)
        waiting = [c for c in self.checks if not run_check(c, env)]
        if self.stores and not apart:
            check_apart(self.stores, given)
        like = next((x for v, x in given.items() if not v.by_value), None)
        like = data_of(like)
        for launch, direct, last in zip(self.launches, self.direct, self.last,
                                        strict=True):
            results = _launch(launch, direct, env, like, log)
            env.update(zip(launch.outputs, results, strict=True))
            waiting = [c for c in waiting if not run_check(c, env)]
            for value in last:
                env.pop(value, None)
        for own, new in self.stores.items():
            if env[new] is not env[own]:
                apply(COPY, (env[new],), out=(env[own],))
                if log is not None:
                    copied = Launch(COPY, (new,), (Value(own.shape, own.type),))
                    log.append(Logged(copied, (env[new],), (env[own],), (env[own],)))
                self._view_again(own, env, log)
        return map_tree(self.outputs, lambda x: env[x] if isinstance(x, Value) else x)

    def _view_again(self, own: Value, env: dict[Value, Any],
                    log: list[Logged] | None) -> None:
        """Make results that are views of what was stored views of the argument."""
        for value in tree_values(self.outputs):
            nodes: list[Node] = []
            if is_view_of(value, self.stores[own], nodes):
                shown = own
                for node in reversed(nodes):
                    made = node.outputs[0]
                    made = made if made is value else Value(made.shape, made.type)
                    launch = Launch(node.spec, (shown,), (made,), node.asked)
                    (env[made],) = _launch(launch, None, env, None, log)
                    shown = made


def _ends(trace: Trace, wanted: Sequence[Value]) -> list[Value]:
    """The ends of what is begun, whose results nobody may want."""
    begun = set(live(trace.nodes, wanted))
    return [node.outputs[0] for node in trace.nodes
            if isinstance(node.spec, Opaque) and node.spec.awaits
            and not begun.isdisjoint(node.sources)]


def data_of(x: Any) -> Any:
    """The array of a Variable; anything else itself."""
    return x.data if isinstance(x, Variable) else x


def evaluate(number: HostCall, env: Mapping[Value, Any]) -> Any:
    """Compute a number on the host.

    Raises
    ------
    TraceInvalid
        It has another type than when it was traced.
    """
    found = number.function(*(env[a] if isinstance(a, Value) else a
                              for a in number.args))
    kind, traced = number_type(found), number.value.type
    if kind is not traced and kind != traced:
        raise TraceInvalid
    return found


def run_check(check: tuple[Callable[[Any], None], Any],
              env: Mapping[Value, Any]) -> bool:
    """Run a check if its value is there."""
    function, value = check
    if value not in env:
        return False
    function(env[value])
    return True


def check_apart(stores: Mapping[Value, Any], given: Mapping[Value, Any]) -> None:
    """Refuse to change in place what is read-only or shares memory with another."""
    arrays = {v: describe(data_of(x)) for v, x in given.items() if not v.by_value}
    places = {v: byte_range(array) for v, array in arrays.items()}
    for own in stores:
        array = arrays[own]
        check_output(own.name, array, array.library, array.device)
        check_distinct(own.name, array.shape, array.strides)
        for other, place in places.items():
            if other is not own and place.overlaps(places[own]) and \
                    may_overlap(array, arrays[other]):
                raise OverlapError(
                    f"'{own.name}' is changed in place inside nf.fuse and shares "
                    f"memory with '{other.name}'; pass a copy of one of them")


def _launch(launch: Launch, direct: tuple[Value | None, ...] | None,
            env: Mapping[Value, Any], like: Any, log: list[Logged] | None,
            ) -> Sequence[Any]:
    spec = launch.spec
    inputs = [env[x] if isinstance(x, Value) else x for x in launch.inputs]
    if isinstance(spec, Opaque):
        results = run_opaque(launch, env)
        if log is not None:
            log.append(Logged(launch, inputs, None, results))
        return results
    if not spec.launches:
        results = apply(spec, inputs, dtypes=launch.asked)
        if log is not None:
            log += _logged_view(launch, inputs, results)
        return results
    out = None if direct is None else tuple(
        None if own is None else env[own] for own in direct)
    arrays = any(isinstance(x, Value) and not x.by_value for x in launch.inputs)
    like = None if arrays else like
    results = apply(spec, inputs, out=out, dtypes=launch.asked, like=like,
                    names=[x.name if isinstance(x, Value) else "number"
                           for x in launch.inputs])
    if log is not None:
        log.append(Logged(launch, inputs, out, results, like))
    return results


def _logged_view(launch: Launch, inputs: Sequence[Any], results: Sequence[Any],
                 ) -> list[Logged]:
    """The launches of a rearrangement; where no strides can do it, a copy comes first.

    The copy is one into the memory of the result, and the result a reshape of it.
    """
    source, made = data_of(inputs[0]), data_of(results[0])
    own, new = (byte_range(describe(x)) for x in (source, made))
    if launch.spec.kind != "reshape" or new.low == new.high or new.overlaps(own):
        return [Logged(launch, inputs, None, results)]
    value = launch.inputs[0]
    target = execute(View("reshape", value.shape), (made,))
    execute(COPY, (source,), out=target)
    between = Value(value.shape, value.type)
    return [Logged(Launch(COPY, (value,), (between,)), (source,), target, target),
            Logged(replace(launch, inputs=(between,)), target, None, results)]


def run_opaque(launch: Launch, env: Mapping[Value, Any]) -> tuple[Any, ...]:
    """Call the function of an `Opaque` step.

    A scalar of NumPy's becomes an array of no dimensions, as every other result is: a
    prepared launch takes these.

    Raises
    ------
    TraceInvalid
        Its results are of other shapes or dtypes than when it was traced.
    """
    spec = launch.spec
    found = spec.function(*(env[x] if isinstance(x, Value) else x for x in spec.args))
    results = tuple([np.asarray(x) if isinstance(x, np.generic) else x
                     for x in ((found,) if spec.single else found)])
    if [(tuple(r.shape), dtype_of(r)) for r in results] != [
            (v.shape, v.type) for v in launch.outputs]:
        raise TraceInvalid
    return results


def read_by(launch: Launch) -> list[Value]:
    """The values that a launch reads; others of its inputs it only comes after."""
    inputs = launch.spec.args if isinstance(launch.spec, Opaque) else launch.inputs
    return [v for v in inputs if isinstance(v, Value)]


def _bases(found: Iterable[Value]) -> set[Value]:
    """The values that these are views of."""
    return {memory_of(v) for v in found if memory_of(v) is not v}


def detach(x: Any) -> Any:
    """`x` without its place in a graph."""
    return x.detach() if hasattr(x, "detach") else x


def map_tree(tree: Any, leaf: Callable[[Any], Any]) -> Any:
    """The tree with ``leaf(x)`` in place of each leaf `x`; a value is one."""
    return trees.map_tree(tree, leaf, _is_value)


def _is_value(x: Any) -> bool:
    return isinstance(x, Value)


def tree_values(tree: Any) -> Iterator[Value]:
    """The values in a tree."""
    return (x for x in trees.leaves_of(tree, _is_value) if isinstance(x, Value))
