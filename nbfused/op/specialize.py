"""`specialize`: copies of a function with other constants."""

from __future__ import annotations

from collections.abc import Mapping
from types import CellType, FunctionType
from typing import Any, TypeVar

from ..errors import KernelTypeError
from ..scalar.source.definitions import global_names, read_names
from ..scalar.source.resolve import freeze
from ..scalar.source.static import literal, literal_parameters

__all__ = ["specialize"]

K = TypeVar("K")


def specialize(kernel: K, **constants: Any) -> K:
    """Copy a kernel or function with other values for its constants.

    Parameters
    ----------
    kernel
        Made by ``@nf.elementwise``, ``@nf.func`` or ``@nf.rawkernel``, or a plain
        scalar function.
    **constants
        Numbers, or tuples of numbers, for globals and closure variables that `kernel`,
        its derivative rules, or a function of the same module that these call reads,
        and for `nf.literal` parameters of `kernel`, whose defaults they become.

    Returns
    -------
    As `kernel`, which is not changed.  Constants that have been compiled before compile
    nothing.

    Raises
    ------
    KernelTypeError
        A name that the kernel does not use, a value that cannot be frozen, or an object
        that reads the constant and cannot be made again, such as ``nf.derivative(f)``.

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
    made = _Specializer(pyfunc, constants)
    known = made.names(kernel)
    for name, value in constants.items():
        if name not in known:
            raise KernelTypeError(
                f"specialize: {pyfunc.__name__} uses no global, closure variable or "
                f"nf.literal parameter {name!r}; it uses "
                f"{', '.join(sorted(made.numbers(kernel))) or 'none'}")
        if freeze(value) is None:
            raise KernelTypeError(f"specialize: {name!r} must be a number or a tuple "
                                  f"of numbers, got {type(value).__name__}")
    return made.specialize(kernel)


class _Specializer:
    """Copies the functions of one module that read the changed constants.

    What reads none of them stays as it is, and keeps what it has compiled.  Functions
    may lead back to one another, by rules: they are copied first, and what they name is
    put in their globals and cells afterwards.
    """

    def __init__(self, root: FunctionType, constants: Mapping[str, Any]) -> None:
        self.root, self.constants = root, constants
        self.globals = {**root.__globals__, **constants}
        self.made: dict[int, Any] = {}
        self.unfilled: list[tuple[FunctionType, FunctionType]] = []

    # What reads what ----------------------------------------------------------------

    def functions(self, target: Any) -> list[FunctionType]:
        """The Python functions of the module in an object."""
        if isinstance(target, FunctionType):
            ours = target.__globals__.get("__name__") == \
                self.root.__globals__.get("__name__")
            return [target] if ours else []
        parts = [getattr(target, "pyfunc", None), getattr(target, "derived_from", None),
                 *getattr(target, "rule_functions", ())]
        return [f for p in parts if p is not None for f in self.functions(p)]

    def reachable(self, target: Any) -> list[FunctionType]:
        """The functions in an object, and all functions they call."""
        found = self.functions(target)
        for pyfunc in found:  # which grows
            for callee in read_names(pyfunc).values():
                found += [f for f in self.functions(callee)
                          if all(f is not g for g in found)]
        return found

    def names(self, target: Any) -> set[str]:
        """Names that these functions read, and the root's literal parameters."""
        return {n for f in self.reachable(target) for n in _read(f)} | {
            n for f in self.functions(target) if f is self.root
            for n in literal_parameters(f)}

    def numbers(self, target: Any) -> set[str]:
        """Names bound to numbers now, and literal parameters."""
        return {n for f in self.reachable(target) for n, value in read_names(f).items()
                if freeze(value) is not None} | {*literal_parameters(self.root)}

    # Copies -------------------------------------------------------------------------

    def specialize(self, kernel: Any) -> Any:
        """A copy of `kernel` that reads the new constants."""
        made = self.copy_object(kernel)
        while self.unfilled:
            self.fill(*self.unfilled.pop())
        return made

    def renewed(self, target: Any) -> Any:
        """A copy of `target`, or itself if it reads no constant."""
        found = self.made.get(id(target))
        if found is not None:
            return found
        return self.copy_object(target) if self.depends(target) else target

    def depends(self, target: Any) -> bool:
        """Whether an object, or a function it calls, reads a constant."""
        return bool(self.constants.keys() & self.names(target))

    def copy_object(self, target: Any) -> Any:
        """A copy of `target`."""
        if isinstance(target, FunctionType):
            return self.copy(target)
        made = self.made[id(target)] = target.renewed(self.renewed(target.pyfunc))
        made.take_rules(target, self.renewed)
        return made

    def copy(self, pyfunc: FunctionType) -> FunctionType:
        """A copy of `pyfunc`; the functions it calls are filled in later."""
        cells = tuple(
            CellType(self.constants[n]) if n in self.constants else
            CellType() if self.depends(_content(cell)) else cell for n, cell in
            zip(pyfunc.__code__.co_freevars, pyfunc.__closure__ or (), strict=True))
        new = FunctionType(pyfunc.__code__, self.globals, pyfunc.__name__, None, cells)
        self.made[id(pyfunc)] = new
        self._describe(new, pyfunc, pyfunc is self.root)
        self.unfilled.append((pyfunc, new))
        return new

    def fill(self, pyfunc: FunctionType, new: FunctionType) -> None:
        """Replace the functions that a copy calls by copies."""
        for old, cell in zip(pyfunc.__closure__ or (), new.__closure__ or (),
                             strict=True):
            if _content(cell) is _EMPTY and _content(old) is not _EMPTY:
                cell.cell_contents = self.renewed(_content(old))
        for name in global_names(pyfunc.__code__):
            callee = pyfunc.__globals__.get(name)
            if name not in self.constants and self.depends(callee):
                self.globals[name] = self.renewed(callee)

    def _describe(self, new: FunctionType, pyfunc: FunctionType, own: bool) -> None:
        """Set names, annotations and defaults of a copy."""
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


_EMPTY = object()


def _content(cell: CellType) -> Any:
    """The value of a closure variable, or a marker if it is not assigned yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return _EMPTY


def _read(pyfunc: FunctionType) -> list[str]:
    """The names of globals and closure variables that a function reads."""
    return [*pyfunc.__code__.co_freevars, *global_names(pyfunc.__code__)]
