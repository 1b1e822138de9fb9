"""The functions that run ops of PyTorch on tensors with elements.

Compiled programs wait for them: a call like the last one, on contiguous tensors, reads
what its kernel depends on and launches, without the checks that PyTorch has made.  It
takes 2.8 µs where the operation itself takes 3.9, and 4.4 with PyTorch's dispatcher,
where an op of PyTorch takes 1.8 (swish and cumsum of 64 elements, one core).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch import direct_call, execute
from ...dispatch.callers import RESTRICTED
from ...dispatch.calls import find_prepared
from ...dispatch.launches import LAUNCHES
from ...support.generated import define
from ...support.stamp import STAMP
from .identity import Call

__all__ = ["computing"]

_TEXT = """\
def compute({names}):
    known, stamp, new, bound, stream = last[0]
    if ({key}) == known and STAMP == stamp and restricted() is None and \\
            traced() is None:
        {read}
        if not ({addresses}) & 15:
            native = new()
            address = native.data_ptr()
            if not address & 15:
                bound(({pointers}, address), ({numbers}), stream())
                return native
    return slow({names})
"""
#: The key of no call.
_NOTHING = (None, b"", None, None, None)


def computing(call: Call) -> Callable[..., Any]:
    """A function that runs a call on tensors with elements."""
    spec, asked, single = call.spec, call.asked, call.outputs == 1
    strong = any(call.numbers)
    types: tuple[type, ...] = ()
    direct: Callable[..., Any] | None = None
    last: list[Any] = [_NOTHING]

    def compute(*args: Any) -> Any:
        nonlocal types, direct
        values = call.values(args) if strong else args
        made = direct(*values) if direct is not None and \
            tuple(map(type, args)) == types else None
        if made is None:
            made = execute(spec, values, dtypes=asked)
            types = tuple(map(type, args))
            direct = direct_call(spec, values, None, dtypes=asked)
        if not single:
            return tuple([x.contiguous() for x in made])
        if not strong and made[0].is_contiguous():
            last[0] = _described(call, args)
        return made[0].contiguous()

    return compute if strong or not single else _generated(call, compute, last)


def _generated(call: Call, slow: Callable[..., Any], last: list[Any],
               ) -> Callable[..., Any]:
    """Generate the function; it asks `slow` for what is not like the last call."""
    names = [f"x{k}" for k in range(len(call.numbers))]
    tensors = [x for x, kind in zip(names, call.numbers, strict=True) if kind is None]
    numbers = [x for x in names if x not in tensors]
    if not tensors:
        return slow
    key = [part.format(x=x) for x in tensors for part in _KEY]
    key += [f"type({x})" for x in numbers]
    space: dict[str, Any] = {
        "last": last, "slow": slow, "STAMP": STAMP, "traced": LAUNCHES.get,
        "restricted": RESTRICTED}
    define(_TEXT.format(
        names=", ".join(names), key=", ".join(key) + ",",
        read="; ".join(f"p_{x} = {x}.data_ptr()" for x in tensors),
        addresses=" | ".join(f"p_{x}" for x in tensors),
        pointers=", ".join(f"p_{x}" for x in tensors),
        numbers="".join(f"{x}, " for x in numbers)), "op of PyTorch", space)
    made: Callable[..., Any] = space["compute"]
    return made


#: What a kernel for a contiguous tensor depends on, besides its address.
_KEY = ("{x}.shape", "{x}.dtype", "{x}.get_device()", "{x}.is_contiguous()")


def _described(call: Call, args: Sequence[Any]) -> tuple[Any, ...]:
    """The key of calls like this one, and what launches them; else `_NOTHING`."""
    stamp = bytes(STAMP)
    tensors = [x for x, kind in zip(args, call.numbers, strict=True) if kind is None]
    if not all(x.is_contiguous() for x in tensors):
        return _NOTHING
    found = find_prepared(call.spec, args, None, call.asked)
    if found is None or found.new is None or found.bound is None or found.pairs:
        return _NOTHING
    key = [part for x in tensors
           for part in (x.shape, x.dtype, x.get_device(), True)]
    key += [type(x) for x, kind in zip(args, call.numbers, strict=True)
            if kind is not None]
    return tuple(key), stamp, found.new, found.bound, found.stream
