"""`specialize`: the same function with other constants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import CellType, CodeType, FunctionType
from typing import Any, TypeVar

from ..errors import KernelTypeError
from ..scalar.resolve import freeze
from ..scalar.static import literal, literal_parameters

__all__ = ["specialize"]

K = TypeVar("K")


def specialize(kernel: K, **constants: Any) -> K:
    """The same kernel or function with other constants.

    Parameters
    ----------
    kernel
        Made by ``@nf.elementwise``, ``@nf.func`` or ``@nf.rawkernel``, or a plain
        scalar function.
    **constants
        Numbers, or tuples of numbers, for globals and closure variables that `kernel`
        or a function of the same module that it calls reads, and for `nf.literal`
        parameters, whose defaults they become.

    Returns
    -------
    As `kernel`, which is not changed.  Constants that have been compiled before compile
    nothing.

    Raises
    ------
    KernelTypeError
        A name that the kernel does not use, or a value that cannot be frozen.

    Examples
    --------
    >>> import nbfused as nf
    >>> FACTOR = 1.0
    >>> @nf.elementwise
    ... def multiply(x):
    ...     return FACTOR * x
    >>> float(multiply(3.0)), float(nf.specialize(multiply, FACTOR=2.0)(3.0))
    (3.0, 6.0)
    """
    pyfunc = getattr(kernel, "pyfunc", kernel)
    if not isinstance(pyfunc, FunctionType):
        raise KernelTypeError("specialize: expected a kernel or function of yours, got "
                              f"{type(kernel).__name__}")
    made = _Specializing(pyfunc, constants)
    known = set(made.names(pyfunc))
    for name, value in constants.items():
        if name not in known:
            raise KernelTypeError(
                f"specialize: {pyfunc.__name__} uses no global, closure variable or "
                f"nf.literal parameter {name!r}; it uses "
                f"{', '.join(sorted(made.numbers(known))) or 'none'}")
        if freeze(value) is None:
            raise KernelTypeError(f"specialize: {name!r} must be a number or a tuple "
                                  f"of numbers, got {type(value).__name__}")
    return made.renewed(kernel)


class _Specializing:
    """Copies functions of one module, each once, with names that stand for constants.

    Functions that read none of them stay as they are, and keep what they have compiled.
    """

    def __init__(self, root: FunctionType, constants: Mapping[str, Any]) -> None:
        self.root, self.constants = root, constants
        self.globals = {**root.__globals__, **constants}
        self.seen: dict[CodeType, bool] = {}
        self.made: dict[int, Any] = {}

    def numbers(self, names: set[str]) -> Iterator[str]:
        """The names that stand for a number now, or for nothing."""
        for n in names:
            if n in self.root.__code__.co_freevars or n in literal_parameters(
                    self.root) or freeze(self.root.__globals__.get(n)) is not None:
                yield n

    def names(self, pyfunc: FunctionType) -> Iterator[str]:
        """What `pyfunc` and the functions of its module that it calls read."""
        self.seen[pyfunc.__code__] = True
        yield from literal_parameters(pyfunc)
        yield from pyfunc.__code__.co_freevars
        for name in _read(pyfunc.__code__):
            yield name
            called = self.called(name)
            if called is not None and called.__code__ not in self.seen:
                yield from self.names(called)

    def called(self, name: str) -> FunctionType | None:
        """The function of the same module that a global is, or is made of."""
        found = self.root.__globals__.get(name)
        found = getattr(found, "pyfunc", found)
        ours = isinstance(found, FunctionType) and \
            found.__globals__ is self.root.__globals__
        return found if ours else None

    def renewed(self, target: Any) -> Any:
        """`target`, a function or an object made of one, made of the copied one."""
        pyfunc = getattr(target, "pyfunc", target)
        new = self.copy(pyfunc)
        return new if target is pyfunc else target.renewed(new)

    def copy(self, pyfunc: FunctionType) -> FunctionType:
        """`pyfunc` that reads the constants."""
        found = self.made.get(id(pyfunc))
        if found is not None:
            return found
        code, own = pyfunc.__code__, pyfunc is self.root
        cells = tuple(
            CellType(self.constants[n]) if own and n in self.constants else cell
            for n, cell in zip(code.co_freevars, pyfunc.__closure__ or (), strict=True))
        new = FunctionType(code, self.globals, pyfunc.__name__, None, cells)
        self.made[id(pyfunc)] = new
        self._describe(new, pyfunc, own)
        for name in _read(code):
            called = self.called(name)
            if called is not None and self._depends(called):
                self.globals[name] = self.renewed(pyfunc.__globals__[name])
        return new

    def _depends(self, pyfunc: FunctionType) -> bool:
        """Whether it reads a constant, itself or by what it calls."""
        self.seen = {}
        return bool(self.constants.keys() & set(self.names(pyfunc)))

    def _describe(self, new: FunctionType, pyfunc: FunctionType, own: bool) -> None:
        """Names, annotations and defaults; those of literals are constants."""
        new.__qualname__, new.__module__ = pyfunc.__qualname__, pyfunc.__module__
        new.__doc__, new.__annotations__ = pyfunc.__doc__, pyfunc.__annotations__
        positional = pyfunc.__code__.co_varnames[:pyfunc.__code__.co_argcount]
        given = dict(zip(reversed(positional), reversed(pyfunc.__defaults__ or ()),
                         strict=False))
        keywords = dict(pyfunc.__kwdefaults__ or {})
        for n in literal_parameters(pyfunc) if own else ():
            if n in self.constants:
                (given if n in positional else keywords)[n] = literal(self.constants[n])
        first = next((k for k, n in enumerate(positional) if n in given),
                     len(positional))
        missing = [n for n in positional[first:] if n not in given]
        if missing:
            raise KernelTypeError(
                f"specialize: {pyfunc.__name__}({', '.join(positional)}) takes "
                f"{missing[0]!r} after a literal parameter that would get a default; "
                "put literal parameters last")
        new.__defaults__ = tuple(given[n] for n in positional[first:]) or None
        new.__kwdefaults__ = keywords or None


def _read(code: CodeType) -> Iterator[str]:
    """The globals and attributes that `code` names, functions inside included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _read(constant)
