"""Cached calls of ops, looked up by the types of their arguments.

`apply` asks of each argument what it is; a function that is generated for their types
(`fast_calls`) knows, and leaves the rest to `dispatch.direct_call`.  It gives None
where anything is unusual, so that `apply` is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from ..arrays import is_array
from ..arrays.traced import Traced
from ..autograd import apply
from ..autograd.calls.keeping import KEEPING
from ..autograd.graph import GraphArray
from ..autograd.nodes import NUMBERS, SpecNode
from ..autograd.recording import RECORDING
from ..autograd.tape import IN_GRAPH, WEAK, wrapped
from ..autograd.versions import note_write
from ..dispatch import ComposedCalls, direct_call
from ..dispatch.views import cached_view
from ..errors import KernelTypeError
from ..scalar.typing.python_numbers import number_type
from ..specs import Spec, View
from ..support.generated import compiled
from .base import output_tuple, raise_named

__all__ = ["CachedCall", "GatherCalls", "SpecCalls", "fast_calls", "view_of"]

Call = Callable[..., Any]

#: What is known is found by the key of `run_recorded`, which looks up in `known` too.
_RECORD = """\
    found = known.get((None, {key}))
    if found is None or found.direct is None:
        return None
    data = {data},
    made = found.direct(*data)
    if made is None:
        return None
"""

_ON_VARIABLES = """\
def direct({args}):
    if keeping or not recording():
        return None
{read}
    if {untracked}:
        return None
{record}\
    node = SpecNode(found, ({graph},), data, made, names)
    if len(found.tracked) == 1:
        return (at(made[0], (node, 0)),)
    return wrapped(node, made, at)
"""

_ON_TENSORS = """\
def record({args}, {edges}):
{read}
{record}\
    return found, made

def direct({args}):
    if not ({tracked}) or not enabled() or modes() or transforms() or \\
            tracing() is not None or forward_ad._current_level >= 0:
        return None
    call = [spec, options, 0, record]
    try:
        made = operation(call, {args})
    except RuntimeError:  # where torch.func is at work, for one: `apply` says more
        return None
    count = call[2]
    return made if len(made) == count else made[:count]
"""


class _Argument(NamedTuple):
    """An argument, as a generated function reads it.

    Attributes
    ----------
    data
        The text of the array, or of the number, behind it.
    edge
        The text of its place in the graph.
    number
        What stands for it in keys; None of arrays, which their shapes stand for.
    """

    data: str
    edge: str
    number: Any = None


def fast_calls(spec: Spec, values: Sequence[Any], outs: Sequence[Any] | None,
               defaults: tuple[Any, ...], names: Sequence[str],
               ) -> tuple[Call | None, Call | None]:
    """Functions that repeat a call of `apply` for arguments of these types.

    Parameters
    ----------
    values, outs, names
        Of the call.
    defaults
        What it takes for the last values where they are left out.

    Returns
    -------
    callable or None
        ``direct(*outs, *values)``: the results, None in place of those that were given;
        None instead of all where something else has to be asked.
    callable or None
        ``taped(*values)``: the same for tensors that PyTorch's tape records, to be
        asked first.
    """
    records = outs is None and spec.launches
    kinds = {type(x) for x in values if isinstance(x, GraphArray)}
    if kinds:
        made = None
        if records and len(kinds) == 1 and kinds <= IN_GRAPH:
            made = _on_variables(spec, values, kinds.pop(), names)
        return _with_defaults(made, defaults), None
    direct = direct_call(spec, values, outs, defaults)
    tensors = records and any(type(x).__module__.startswith("torch") for x in values)
    taped = _on_tensors(spec, values, names) if tensors else None
    return direct, _with_defaults(taped, defaults)


def _on_variables(spec: Spec, values: Sequence[Any], kind: type[GraphArray],
                  names: Sequence[str]) -> Call | None:
    """The call for Variables, some of which are tracked."""
    given = [_Argument(f"v{k}", f"e{k}") if isinstance(x, kind) else _plain(k, x)
             for k, x in enumerate(values)]
    graph = [k for k, a in enumerate(given) if a is not None and a.edge != "None"]
    return _generated(_ON_VARIABLES, spec, given, {
        "read": [f"v{k}, e{k} = x{k}._value, x{k}._edge" for k in graph],
        "untracked": [" and ".join(f"e{k} is None" for k in graph)],
    }, {"recording": RECORDING.get, "keeping": KEEPING, "at": kind.at,
        "wrapped": wrapped, "names": names})


def _on_tensors(spec: Spec, values: Sequence[Any], names: Sequence[str]) -> Call | None:
    """The call for tensors, some of which require grad in PyTorch."""
    from ..autograd.torch_bridge import operation, readable, recording_state

    detached = readable()
    given = [_Argument(f"v{k}", f"e{k}") if type(x) in detached else
             _plain(k, x) if isinstance(x, NUMBERS) else None
             for k, x in enumerate(values)]
    graph = [k for k, a in enumerate(given) if a is not None and a.edge != "None"]
    options = {"dtypes": None, "casting": "same_kind", "names": names}
    return _generated(_ON_TENSORS, spec, given, {
        "read": [f"v{k} = x{k}" + ".detach()" * detached[type(values[k])]
                 for k in graph],
        "tracked": [" or ".join(f"x{k}.requires_grad" for k in graph)],
    }, {"operation": operation()[1], "spec": spec, "options": options,
        **recording_state()})


def _plain(k: int, x: Any) -> _Argument | None:
    """An argument outside of the graph: a number or an array; None of others.

    An array that its own library tracks is refused by the direct call.
    """
    if type(x) in WEAK:
        return _Argument(f"x{k}", "None", (type(x),))
    if isinstance(x, np.generic):
        return _Argument(f"x{k}", "None", (False, number_type(x)))
    return _Argument(f"x{k}", "None") if is_array(x) and not isinstance(
        x, (GraphArray, Traced)) else None


def _generated(text: str, spec: Spec, given: Sequence[_Argument | None],
               parts: dict[str, list[str]], names: dict[str, Any]) -> Call | None:
    """Compile a template for these arguments; None if one of them cannot be read."""
    arguments = [a for a in given if a is not None]
    if len(arguments) < len(given):
        return None
    key = [f"*n{k}" if a.number else
           f"{'False' if a.edge == 'None' else f'{a.edge} is not None'}, "
           f"type({a.data}), {a.data}.shape, {a.data}.dtype"
           for k, a in enumerate(arguments)]
    record = _RECORD.format(key=", ".join(key),
                            data=", ".join(a.data for a in arguments))
    lines = {name: "\n".join(f"    {line}" for line in found) if name == "read"
             else found[0] for name, found in parts.items()}
    code = _compiled(text.format(
        args=", ".join(f"x{k}" for k in range(len(given))), record=record,
        edges=", ".join(f"e{k}" for k in range(len(given))),
        graph=", ".join(a.edge for a in arguments), **lines))
    space = {**names, "SpecNode": SpecNode,
             "known": spec.__dict__.setdefault("_recorded", {}),
             **{f"n{k}": a.number for k, a in enumerate(arguments)}}
    exec(code, space)
    made: Call = space["direct"]
    return made


@lru_cache(maxsize=1024)
def _compiled(text: str) -> Any:
    return compiled(text, "recording")


def _with_defaults(call: Call | None, defaults: tuple[Any, ...]) -> Call | None:
    if isinstance(call, FunctionType):
        call.__defaults__ = defaults
    return call


class CachedCall:
    """A cached call of a spec, repeated for arguments of the same types.

    Parameters
    ----------
    spec, values, outs
        The call: all arguments, and the outputs that were given.
    name, names
        What messages call the op and its arguments.
    defaults
        Of arguments that were left out.
    """

    def __init__(self, spec: Spec, values: Sequence[Any], outs: Sequence[Any] | None,
                 name: str, names: tuple[str, ...], defaults: tuple[Any, ...] = (),
                 ) -> None:
        self._spec, self._name, self._names = spec, name, names
        self._defaults = defaults
        single = outs is None or (len(outs) == 1 and outs[0] is not None)
        self._direct, self._taped = fast_calls(
            spec, values, outs, self._defaults, names) if single else (None, None)
        self._outputs = 1 if outs is None else len(outs)

    def __call__(self, args: tuple[Any, ...], out: Any) -> Any:
        """Call the spec with new arguments, and an `out` of the same type or None."""
        direct, made = self._direct, None
        if self._taped is not None:
            made = self._taped(*args)
        if made is None and direct is not None and type(out) is not tuple:
            made = direct(*args) if out is None else direct(out, *args)
        if made is None:  # it is differentiated, or a closer look is needed
            outs = None if out is None else output_tuple(
                out, self._outputs, self._name)
            values = args + self._defaults
            try:
                made = apply(self._spec, values, out=outs, names=self._names)
            except KernelTypeError as error:
                raise_named(error, self._name, self._names, values)
            return made[0] if len(made) == 1 else made
        if out is not None:
            note_write((out,))
            return out
        return made[0] if len(made) == 1 else tuple(made)


class SpecCalls:
    """Calls of a spec that has one output, cached by the types of their arguments.

    Parameters
    ----------
    spec
        What is called; an attribute too.
    name, names
        What messages call the op and its arguments; the second is an attribute too.
    """

    def __init__(self, spec: Spec, name: str, names: tuple[str, ...]) -> None:
        self.spec, self._name, self.names = spec, name, names
        self._known: dict[tuple[type, ...], CachedCall] = {}

    def __call__(self, *values: Any, out: Any = None) -> Any:
        """Call the spec with arrays, Variables and numbers, and an array to fill."""
        key = (*map(type, values), type(out))
        found = self._known.get(key)
        if found is None:
            outs = None if out is None else (out,)
            made = apply(self.spec, values, out=outs, names=self.names)[0]
            self._known[key] = CachedCall(self.spec, values, outs, self._name,
                                          self.names)
            return made
        return found(values, out)


class GatherCalls(ComposedCalls):
    """Calls of a gather of rows that machine code repeats, of Variables too.

    The table of a gather that is recorded is a matrix, its indices a line: what is
    recorded has a view of these, which is all that Python makes of such a call.
    """

    def __init__(self) -> None:
        super().__init__()
        self._recorded: dict[Any, tuple[Any, tuple[Any, ...], tuple[str, ...]]] = {}

    def learn_recorded(self, x: Any, indices: Any, spec: Spec, values: Sequence[Any],
                       made: Any, ranges: dict[int, tuple[int, int]],
                       names: tuple[str, ...]) -> None:
        """Learn a call of a Variable that was recorded; parameters as for `learn`."""
        node = made._edge and made._edge[0]
        if type(node) is not SpecNode or node.plan.forward is not spec or \
                type(x._value) is not np.ndarray or len(node.recording.tracked) != 1:
            return
        if len(self._recorded) >= _LIMIT:
            self._recorded.clear()
        self._recorded[self._key(x._value, indices)] = (
            node.recording, tuple(values[2:]), names)
        self.learn((x._value, indices), spec, (x._value, *values[1:]), made._value,
                   ranges)

    def recorded(self, x: Any, indices: Any) -> Any:
        """The result for a Variable; None where something else has to be asked."""
        kind = type(x)
        if kind not in IN_GRAPH or type(indices) is not np.ndarray or KEEPING \
                or x._edge is None or not RECORDING.get():
            return None
        table = x._value
        found = self._recorded.get(self._key(table, indices)) \
            if type(table) is np.ndarray else None
        made = found and indices.flags.c_contiguous and self.function(table, indices)
        if not (found and made):
            return None
        recording, numbers, names = found
        wide = np.ndarray((len(indices), table.shape[1]), indices.dtype, indices, 0,
                          (indices.itemsize, 0))
        node = SpecNode(recording, (x._edge, None, *[None]*len(numbers)),
                        (table, wide, *numbers), made, names)
        return kind.at(made[0], (node, 0))

    @staticmethod
    def _key(table: Any, indices: Any) -> tuple[Any, ...]:
        return table.shape, table.dtype, indices.shape, indices.dtype


#: Ways of gathers that are recorded, at most.
_LIMIT = 256


def view_of(spec: View, x: Any) -> Any:
    """The view of an array; of one of NumPy's, which no tape sees, a cached one."""
    if type(x) is np.ndarray:
        known = cached_view(spec, x)
        if known is not None:
            return known[0][0]
    return apply(spec, (x,), names=("x",))[0]
