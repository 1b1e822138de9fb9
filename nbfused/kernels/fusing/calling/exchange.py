"""Calls between processes: begun as soon as what they carry is there, awaited late."""

from __future__ import annotations

from collections.abc import Callable, MutableSet, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from ....arrays import describe
from ....autograd import Variable
from ....specs.base import Shape
from ..program import Opaque, data_of
from .callback import Callback
from .steps import record_opaque

if TYPE_CHECKING:
    from ..trace import Trace

__all__ = ["Exchange", "record_exchange"]

#: Stores the result for the first array in the second.
Carry = Callable[[Any, Any], None]
#: A context in which calls go to a CUDA stream that is being captured.
OnStream = Callable[[int], AbstractContextManager[None]]


class Exchange(Callback):
    """A call that every process makes, with a part of an array or all of it.

    Parameters
    ----------
    name
        For messages.
    shape, dtype
        Of the result.
    prepare
        Checks an array; gives it with its elements one after another, and new memory
        for the result.
    carry
        Stores the result for the first array in the second.
    begin
        Begins that; what it returns waits for it.  None: it cannot be begun alone.
    on_stream
        See `OnStream`; None if `carry` cannot be captured.
    captures
        Where those enter themselves that hold what was captured.
    in_place
        Whether the result may have the memory of the array.
    """

    def __init__(self, name: str, shape: Shape, dtype: np.dtype,
                 prepare: Callable[[Any], tuple[Any, Any]], carry: Carry,
                 begin: Callable[[Any, Any], Callable[[], object]] | None,
                 on_stream: OnStream | None, captures: MutableSet[Any],
                 in_place: bool) -> None:
        super().__init__(self._carried, shape, dtype, None)
        self.__name__ = name
        self._prepare, self.carry, self.begin = prepare, carry, begin
        self.on_stream, self.captures, self.in_place = on_stream, captures, in_place
        #: What waits for the calls under way, by the addresses of their results.
        self._under_way: dict[int, Callable[[], object]] = {}

    def _carried(self, x: Any) -> Any:
        source, target = self._prepare(x)
        self.carry(source, target)
        return target

    def whole(self, x: Any) -> tuple[Any]:
        """The call from its beginning to its end."""
        made = self._carried(data_of(x))
        return (Variable(made) if isinstance(x, Variable) else made,)

    def start(self, x: Any) -> tuple[Any]:
        """Begin the call; its result, which is there after `wait`."""
        assert self.begin is not None
        source, target = self._prepare(data_of(x))
        self._under_way[describe(target).pointer] = self.begin(source, target)
        return (Variable(target) if isinstance(x, Variable) else target,)

    def wait(self, result: Any) -> tuple[Any]:
        """Wait for a call that was begun; its result."""
        self._under_way.pop(describe(data_of(result)).pointer)()
        return (result,)


def record_exchange(trace: Trace, exchange: Exchange,
                    args: Sequence[Any]) -> tuple[Any, ...]:
    """Record an exchange as two steps, or as one if it cannot be begun alone.

    Each begins after the one that was recorded before: all processes in one order.
    """
    trace.exact = True
    (x,), (shape,) = map(trace.operand, args), exchange.shapes(args)
    result, before = (shape, exchange.dtypes[0]), tuple(trace.exchanges[-1:])
    first = exchange.whole if exchange.begin is None else exchange.start
    made = record_opaque(trace, Opaque(
        _step(first, exchange.__name__), (x,), False, (None,), exchange=exchange),
        args, (x, *before), [result])
    trace.exchanges.append(made[0].value)
    if exchange.begin is not None:
        made = record_opaque(trace, Opaque(
            _step(exchange.wait, f"{exchange.__name__}, its end"), (made[0].value,),
            False, (0,), awaits=True), made, (made[0].value,), [result])
    made[0].scalar = False
    return made


def _step(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def run(*values: Any) -> Any:
        return function(*values)

    run.__name__ = name
    return run
