"""Results of a traced function as values of its program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...arrays import is_array
from ...autograd.graph import COPY
from ...autograd.numpy_api.chosen import Chosen
from ...errors import KernelTypeError
from ...specs.fusion.graph import Node, Value
from .outside.containers import holds_array, is_object
from .outside.host_arrays import HostArray
from .program import is_view, map_tree, memory_of
from .symbols.arrays import Symbol
from .symbols.numbers import Number

if TYPE_CHECKING:
    from .trace import Trace

__all__ = ["results_of"]


def results_of(trace: Trace, result: Any) -> Any:
    """The tree that a function returns, with values in the places of symbols."""
    arrays: dict[Value, object] = {memory_of(new): own
                                   for own, new in trace.stores.items()}
    return map_tree(result, lambda x: _output(trace, x, arrays))


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
        return trace.operand(x) if isinstance(x, Number) else x
    if x.own is not None:
        return x.own
    value = trace.operand(x)
    if memory_of(value) in trace.constants:  # which the next call reads as well
        return _copy(trace, value, x.array)
    same = arrays.setdefault(memory_of(value), x.array) is x.array
    return value if same else _copy(trace, value, x.array)


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
