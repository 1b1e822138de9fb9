"""Placeholders for arrays that PyTorch's tape or a compiler of another library follows.

NumPy's functions are written for Variables.  Of these, each operation runs on the array
that a placeholder holds, so that the array's own library sees it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np

from ...arrays import dtype_of, is_array, library_of
from ...arrays.detect import is_symbolic
from ...errors import KernelTypeError
from ...support.trees import leaves_of, map_tree
from ..graph import GraphArray
from ..variable import Variable
from .batched import Batched, Level

__all__ = ["Tracked", "call_whole", "placeholders"]


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

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Tracked:
        """Zeros of another shape and dtype."""
        return self._same_level(np.zeros(shape, dtype))

    def constant(self, host: np.ndarray, given: Sequence[Any] = ()) -> Tracked:
        """An array of the host, as one of the library."""
        return self._same_level(host)

    def _same_level(self, host: np.ndarray) -> Tracked:
        if library_of(self.held).name == "torch":
            made = sys.modules["torch"].tensor(host, device=self.held.device)
        else:
            jax = sys.modules["jax"]
            made = jax.numpy.asarray(host.astype(
                jax.dtypes.canonicalize_dtype(host.dtype)))
        return Tracked(self.level, made, False)

    def record_call(self, function: Callable[..., Any], args: Sequence[Any],
                    inline: Callable[[Sequence[Any]], Any]) -> Any:
        """Call a function with a derivative of its own: one node of PyTorch's tape.

        What another library's own functions compute it traces and transforms itself,
        and JAX differentiates.
        """
        held = [x.held if isinstance(x, Tracked) else x for x in args]
        made = _of_library(_name(function), function, held)
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


def on_placeholders(name: str, function: Callable[..., Any], *trees: Any) -> Any:
    """Results of a function for placeholders of the arrays in trees, without these."""
    like = next(x for x in leaves_of(trees) if is_array(x))
    hold = placeholders(name, like)
    made = function(*[map_tree(tree, lambda x: hold(x) if is_array(x) else x)
                      for tree in trees])
    return map_tree(made, lambda x: x.held if isinstance(x, Tracked) else x)


def _name(function: Callable[..., Any]) -> str:
    """The name of a function, or of the class whose method it is."""
    owner = getattr(function, "__self__", function)
    return str(getattr(owner, "__name__", type(owner).__name__))


def call_whole(name: str, function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Call a function with a rule of ours on arrays that their library follows.

    Raises
    ------
    KernelTypeError
        Such an array is inside of a tuple, list or dictionary, where no library would
        see it; or an argument is of another library; or no key.
    """
    for k, x in enumerate(args):
        if not is_array(x) and any(map(is_array, leaves_of(x))):
            raise KernelTypeError(
                f"{name}: argument {k} is a {type(x).__name__} of arrays, of which one "
                "is traced or requires grad in its own library; pass each array as an "
                "argument")
        if not is_array(x) and not isinstance(x, Hashable):
            raise KernelTypeError(
                f"{name}: argument {k} is a {type(x).__name__} beside an array that "
                "is traced or requires grad in its own library; expected numbers, "
                "text, or tuples of them")
    made = _of_library(name, function, args)
    return tuple(made) if len(made) > 1 else made[0]


def _of_library(name: str, function: Callable[..., Any],
                held: Sequence[Any]) -> Sequence[Any]:
    """Results of a function with a rule, in a way that the arrays' library follows."""
    owner = getattr(function, "__self__", function)
    arrays = [x for x in held if is_array(x)]
    libraries = {library_of(x).name for x in arrays}
    if "jax" in libraries or (
            hasattr(owner, "native") and any(map(is_symbolic, arrays))):
        return _by_library(name, owner, held)
    if libraries != {"torch"} or any(isinstance(x, GraphArray) for x in held):
        kinds = sorted({type(x).__name__ for x in held
                        if is_array(x) or isinstance(x, GraphArray)})
        raise KernelTypeError(
            f"{name}: a tensor that requires grad beside arguments of other kinds "
            f"({', '.join(kinds)}); expected tensors only")
    places = tuple([k for k, x in enumerate(held) if is_array(x)])
    fixed = tuple([None if is_array(x) else x for x in held])
    made: Sequence[Any] = _torch_op(name, function, fixed, places)(
        *[held[k] for k in places])
    return made


def _by_library(name: str, owner: Any, held: Sequence[Any]) -> Sequence[Any]:
    """Results of the function of another library that computes those of `owner`."""
    native = getattr(owner, "native", None)
    if native is not None:
        made = native(*held[1:], **dict(held[0]))
    elif hasattr(owner, "defvjp"):
        from ..compilers.jax.rules import call_rule

        made = call_rule(owner, held, on_placeholders)
    else:
        raise KernelTypeError(
            f"{name} has a derivative of ours, which a transform of JAX does not see; "
            "use nbfused.custom_vjp or jax.custom_vjp, or nbfused.grad")
    return made if isinstance(made, (tuple, list)) else (made,)


@lru_cache(maxsize=512)
def _torch_op(name: str, function: Callable[..., Any], fixed: tuple[Any, ...],
              places: tuple[int, ...]) -> Any:
    """A function, whose other arguments are `fixed`, as an op of PyTorch."""
    from ..compilers.torch_callables import CallableOp

    return CallableOp(re.sub(r"\W", "_", name), partial(_run, function, fixed, places),
                      partial(_infer, name, function, fixed, places),
                      (False,) * len(places), True)


def _run(function: Callable[..., Any], fixed: tuple[Any, ...],
         places: tuple[int, ...], *arrays: Any) -> tuple[Any, ...]:
    """Call it with Variables, as rules are; PyTorch's tensors know no NumPy."""
    return _call(function, fixed, places, *[
        x if isinstance(x, GraphArray) else Variable(x) for x in arrays])


def _call(function: Callable[..., Any], fixed: tuple[Any, ...],
          places: tuple[int, ...], *arrays: Any) -> tuple[Any, ...]:
    given = list(fixed)
    for k, x in zip(places, arrays, strict=True):
        given[k] = x
    made = function(*given)
    return tuple(made) if isinstance(made, (tuple, list)) else (made,)


def _infer(name: str, function: Callable[..., Any], fixed: tuple[Any, ...],
           places: tuple[int, ...], *arrays: Any) -> list[Any]:
    """Shapes and dtypes of results, by running the function on symbols step by step."""
    owner = getattr(function, "__self__", function)
    inner = getattr(owner, "function", None)
    if inner is None:
        raise KernelTypeError(
            f"{name}: what it gives is not known before it is computed, as "
            "torch.compile asks for; call PyTorch's own function there, or write it "
            "with nbfused.custom_vjp")
    hold = placeholders(name, arrays[0])
    made = _call(inner, fixed, places, *map(hold, arrays))
    return [(tuple(x.shape), dtype_of(x)) for x in made]
