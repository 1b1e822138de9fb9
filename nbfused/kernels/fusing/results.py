"""Results of a traced function as values of its program."""

from __future__ import annotations

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from functools import partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...arrays import is_array
from ...autograd.graph import COPY
from ...autograd.numpy_api.chosen import Chosen
from ...errors import KernelTypeError
from ...specs.fusion.graph import Node, Value
from ...support.trees import leaves_of
from .outside.containers import holds_array, is_object
from .outside.hidden import content
from .outside.host_arrays import HostArray
from .parts import is_view, is_view_of, memory_of
from .program import map_tree
from .symbols.arrays import Symbol
from .symbols.numbers import Number

if TYPE_CHECKING:
    from .trace import Trace

__all__ = ["results_of"]


def results_of(trace: Trace, result: Any) -> Any:
    """The tree that a function returns, with values in the places of symbols."""
    views = [x for x in leaves_of(result) if isinstance(x, Symbol)]
    for view in views:
        _follow(trace, view, views)
    arrays: dict[Value, object] = {memory_of(new): own
                                   for own, new in trace.stores.items()}
    found = map_tree(result, lambda x: _output(trace, x, arrays) if not _is_element(x)
                     else x)
    return map_tree(found, lambda x: _element(trace, x, arrays) if _is_element(x)
                    else x)


def _follow(trace: Trace, view: Symbol, results: Sequence[Symbol]) -> None:
    """Make a view of an array that was changed by parts a view of what it is now.

    That is what an argument is at the end, or what is returned as well.
    """
    root = view.root
    if root is None or not view.parts:
        return
    if root.own is None:
        shown = trace.operand(root) if any(x is root for x in results) else None
    else:
        shown = trace.stores.get(root.own)
    if shown is None or is_view_of(trace.operand(view), shown):
        return
    for part in view.parts:
        shown = _node(trace, part, shown)
    view.value = shown


def _node(trace: Trace, spec: Any, value: Value) -> Value:
    """The result of a node of one input, of the input's dtype."""
    (shape,) = spec.out_shapes((value.shape,))
    node = Node(spec, (value,), [(shape, value.type)], (value.type,))
    trace.nodes.append(node)
    return node.outputs[0]


def _is_element(x: Any) -> bool:
    return isinstance(x, Symbol) and x.element and not x.extents and x.own is None


def _element(trace: Trace, x: Symbol, arrays: Mapping[Value, object]) -> Value:
    """An element of an array, which NumPy has as a number: in memory of its own."""
    value = trace.operand(x)
    memory = memory_of(value)
    if memory is value or (memory.node is not None and memory not in arrays):
        return value
    return _node(trace, COPY, value)


def _output(trace: Trace, x: Any, arrays: dict[Value, object]) -> Any:
    """An argument itself, changed or not; or the value of what was computed.

    What was computed once for two of the function's `arrays` is copied for one.
    """
    if isinstance(x, HostArray) and not trace.memories.knows(x):
        return np.array(x)
    if is_array(x) and trace.memories.knows(x) and not isinstance(x, np.generic):
        x = trace.symbol(trace, trace.operand(x))
    if isinstance(x, Chosen):
        raise KernelTypeError(
            f"fuse: {trace.name} returns x[mask]; how many elements a mask chooses is "
            "not known before the call; return x and mask, and choose outside")
    if not isinstance(x, Symbol):
        if is_object(x) and holds_array(x):
            raise KernelTypeError(
                f"fuse: {trace.name} returns a {type(x).__name__} that holds "
                "arrays of the call; return them in a dataclass, a tuple, a list "
                "or a dictionary")
        _refuse_later(trace, x)
        return trace.operand(x) if isinstance(x, Number) else x
    if x.own is not None:
        return x.own
    value = trace.operand(x)
    if memory_of(value) in trace.constants:  # which the next call reads as well
        return _copy(trace, value, x.array)
    same = arrays.setdefault(memory_of(value), x.array) is x.array
    return value if same else _copy(trace, value, x.array)


def _refuse_later(trace: Trace, x: Any) -> None:
    """Refuse what would compute with arrays of the call when that is over.

    Raises
    ------
    KernelTypeError
        `x` is an iterator, can be awaited, or is a function of such arrays.
    """
    if isinstance(x, Coroutine):
        x.close()  # nobody awaits it, of which Python would warn
    elif not isinstance(x, (Iterator, AsyncIterator, Awaitable)) and not any(
            isinstance(leaf, (Symbol, Number)) for leaf in leaves_of(_bound(x))):
        return
    raise KernelTypeError(
        f"fuse: {trace.name} returns what computes later ({type(x).__name__}); compute "
        "it there, and return the results in a tuple, a list or a dictionary")


def _bound(x: Any) -> list[Any]:
    """Contents of a function's cells, its defaults, and what is bound to it."""
    if isinstance(x, MethodType):
        return [x.__self__, *_bound(x.__func__)]
    if isinstance(x, partial):
        return [*x.args, *x.keywords.values(), *_bound(x.func)]
    if not isinstance(x, FunctionType):
        return []
    return [*(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values(),
            *map(content, x.__closure__ or ())]


def _copy(trace: Trace, value: Value, array: object) -> Value:
    """The value in memory of its own, which `array` stands for; views of that."""
    if (value, array) not in trace.copies:
        spec, inputs, asked = COPY, (value,), (value.type,)
        if value.node is not None and is_view(value.node.spec):
            spec, asked = value.node.spec, value.node.asked
            inputs = (_copy(trace, value.node.inputs[0], array),)
        node = Node(spec, inputs, [(value.shape, value.type)], asked)
        trace.nodes.append(node)
        (trace.copies[value, array],) = node.outputs
    return trace.copies[value, array]
