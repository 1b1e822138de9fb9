"""Placeholders for arrays that PyTorch's tape or a compiler of another library follows.

NumPy's functions are written for Variables.  Of these, each operation runs on the array
that a placeholder holds, so that the array's own library sees it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np

from ...arrays import is_array, library_of
from ...errors import KernelTypeError
from ..variable import Variable
from .batched import Batched, Level

__all__ = ["Tracked", "placeholders"]


class _Operations(Level):
    """One call of a function whose operations another library follows."""

    def hold(self, x: Any, batched: bool = False) -> Tracked:
        return Tracked(self, x, False)


def placeholders(name: str, like: Any) -> Callable[[Any], Tracked]:
    """Give a function that makes the placeholders for one call.

    `name` is that of what is called, `like` an argument that its library tracks.
    """
    return _Operations(name, 1, like).hold


def _value(method: str) -> Callable[..., Any]:
    def read(self: Tracked, *args: Any, **options: Any) -> Any:
        return getattr(Variable(_detached(self.held)), method)(*args, **options)

    return read


class Tracked(Batched):
    """An array that its own library follows."""

    __slots__ = ()
    unknown: ClassVar[str] = "which its own library traces"

    def detach(self) -> Tracked:
        """The same elements, not differentiated through."""
        return self._same(self.level.hold(_detached(self.held)))

    def record_check(self, check: Callable[[Any], Any]) -> None:
        """Check the elements that there are."""
        check(_detached(self.held))

    def constant(self, host: np.ndarray, given: Sequence[Any] = ()) -> Batched:
        """An array of the placeholder's library, which is not differentiated."""
        if library_of(self.held).name == "jax":
            import jax

            return self.level.hold(jax.numpy.asarray(host))
        return self.level.hold(sys.modules["torch"].tensor(
            host, device=self.held.device))

    def record_call(self, function: Callable[..., Any], args: Sequence[Any],
                    inline: Callable[[Sequence[Any]], Any]) -> Any:
        """Call a function with a derivative of its own: one node of PyTorch's tape.

        JAX and `torch.func` transform their own functions, which are called there.
        """
        owner = getattr(function, "__self__", function)
        held = [x.held if isinstance(x, Tracked) else x for x in args]
        if any(is_array(x) and _transforms(x) for x in held):
            made = _by_library(owner, held)
        else:
            places = tuple([k for k, x in enumerate(held) if is_array(x)])
            fixed = tuple([None if is_array(x) else x for x in held])
            made = _torch_op(function, fixed, places)(*[held[k] for k in places])
        found = tuple(map(self.level.hold, made))
        return found if len(found) > 1 else found[0]

    def _same(self, other: Any) -> Any:
        other._of = self, None
        return other

    __bool__, __int__, __index__ = map(_value, ("__bool__", "__int__", "__index__"))
    __float__, __complex__ = map(_value, ("__float__", "__complex__"))
    __array__, item = map(_value, ("__array__", "item"))
    to_numpy = numpy = _value("to_numpy")

    def __repr__(self) -> str:
        return f"<tracked array, {self.dtype} {self.extents}>"


def _detached(x: Any) -> Any:
    """An array that its library does not differentiate through."""
    if library_of(x).name == "jax":
        import jax

        return jax.lax.stop_gradient(x)
    return x.detach() if hasattr(x, "detach") else x


def _transforms(x: Any) -> bool:
    """Whether the library of an array transforms functions, not single tensors."""
    if library_of(x).name == "jax":
        return True
    functorch = getattr(sys.modules.get("torch"), "_C", None)
    return functorch is not None and functorch._are_functorch_transforms_active()


def _by_library(owner: Any, held: Sequence[Any]) -> Sequence[Any]:
    """Results of the library's own function for that of `owner`."""
    native = getattr(owner, "native", None)
    if native is None:
        raise KernelTypeError(
            f"{getattr(owner, '__name__', owner)} has a derivative of ours, which "
            "transforms of JAX and torch.func do not see; use a function with a "
            "derivative of that library, or nbfused.grad")
    made = native(*held[1:], **dict(held[0]))
    return made if isinstance(made, (tuple, list)) else (made,)


@lru_cache(maxsize=512)
def _torch_op(function: Callable[..., Any], fixed: tuple[Any, ...],
              places: tuple[int, ...]) -> Any:
    """A function, whose other arguments are `fixed`, as an op of PyTorch."""
    from ..compilers.torch_callables import CallableOp

    owner = getattr(function, "__self__", function)
    name = getattr(owner, "__name__", type(owner).__name__)
    return CallableOp(name.replace(".", "_"), partial(_call, function, fixed, places),
                      partial(_unknown, name), (False,) * len(places))


def _call(function: Callable[..., Any], fixed: tuple[Any, ...],
          places: tuple[int, ...], *arrays: Any) -> tuple[Any, ...]:
    given = list(fixed)
    for k, x in zip(places, arrays, strict=True):
        given[k] = x
    made = function(*given)
    return tuple(made) if isinstance(made, (tuple, list)) else (made,)


def _unknown(name: str, *arrays: Any) -> Any:
    raise KernelTypeError(
        f"{name}: what it gives is not known before it is computed, as torch.compile "
        "asks for; call PyTorch's own function there")
