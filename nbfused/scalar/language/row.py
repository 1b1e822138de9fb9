"""One builtin of the scalar language: everything that is known of it, as one row."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import DefinitionError
from ...support.records import record
from ..typing.python_numbers import plain_number

__all__ = ["NUMPY", "OPS", "Op", "define"]

#: The attribute of an `Op.ordering` that is NumPy's function, not Python's operator.
NUMPY = "numpy"

#: Every operation by its name: `elementary` and `composites` have the rows.
OPS: dict[str, Op] = {}

#: Casts that definitions may use, besides the vocabulary.
_CASTS = {"uint64": np.uint64, "float32": np.float32}
_DEFINED: dict[str, Callable[..., Any]] = {}


@record(frozen=True, eq=False)
class Op:
    """One operation of the scalar language; calling it evaluates it with NumPy.

    Texts for kernels are the name of a function, or a template with the operands
    ``{a}``, ``{b}``, ``{c}``, the type ``{t}`` and its zero ``{zero}``.

    Attributes
    ----------
    name
        As in the `op` field of `ir.Let`.
    partials
        For each operand, the partial derivative as an expression in the operands
        ``a``, ``b``, ``c`` and the result ``y``; None where it is identically zero.
        Empty: a composite is differentiated through its definition.
    arity
        Number of operands.
    rule
        The NumPy ufunc whose type resolution decides the dtypes, or ``"same"``: the
        operands are taken as they are.
    definition
        For a composite: its ``def`` in terms of other operations.  It needs no text for
        any backend.
    doc
        What it computes.
    numpy
        NumPy's function, where it is not the ufunc `rule`.
    aliases
        Further functions of Python and NumPy that mean it.
    number
        The function by which Python computes it where all operands are numbers.
    python
        Its text in the scalar language: ``nf.name`` for public names.
    operator
        Its text for Numba where operators alone compute it, whatever the dtype.
    numba
        Its text for Numba on floating numbers.
    numba_complex
        The same on complex numbers; where it is left out, `cmath` for `math`.
    cuda
        The function of libdevice, where Numba's does not do; ``f`` is added for
        float32.
    cpu
        Floating dtypes for which `nbfused.cpu.mathematics` defines it.
    hip
        Its text for HIP, where that is neither `operator` nor the function of
        ``rocm/hip/numbers.h`` of its name.
    wraps
        That function for integers which `operator` would let overflow.
    formulas
        Pairs of dtypes and the function of `printing.formulas` that is written out for
        them, on every backend that has no function of its own.
    c
        Its names in C bodies; with an ``f`` behind it is C's for float32.
    torch
        PyTorch's names, where they differ from NumPy's.
    boolean
        Whether the result is a bool.
    real
        Whether backends compute it of real operands only: complex ones are refused, or
        `on_complex`.
    passes
        Kinds of dtypes whose values it leaves as they are.
    of_integers
        For a predicate: what it says of every integer.
    on_bools
        The operation that it is on bools.
    on_complex
        The operation that it is on complex numbers: differentiated in its place, and
        written out where it is `real`, since no backend computes it.
    ordering
        Whether it orders its operands, or 0 and its operand: complex ones only as
        NumPy's function of that name, by `on_complex`; Python's operators refuse them,
        and so do derivatives that hold for real numbers only.
    change
        How the change of a complex operand enters the result's: times the partial
        derivative; ``"real"``, as the real part of that; ``"conjugate"``, as its
        conjugate times the partial derivative.
    mirrored
        The comparison that it is with its operands exchanged.
    commutes
        Whether its operands may be exchanged.
    cost
        About how many instructions it takes; 0 for many.
    long
        Whether it takes as many registers as a small function.
    exact
        An expression of ``a`` (and ``b``) with mpmath's functions, for tests.
    points
        Where its value and derivatives are tested.
    """

    name: str
    partials: tuple[str | None, ...]
    arity: int
    rule: str
    definition: str | None = None
    doc: str = ""
    numpy: Callable[..., Any] | None = None
    aliases: tuple[Callable[..., Any], ...] = ()
    number: Callable[..., Any] | None = None
    python: str = ""
    operator: str = ""
    numba: str = ""
    numba_complex: str = ""
    cuda: str = ""
    cpu: tuple[str, ...] = ()
    hip: str = ""
    wraps: str = ""
    formulas: tuple[tuple[tuple[str, ...], str], ...] = ()
    c: tuple[str, ...] = ()
    torch: tuple[str, ...] = ()
    boolean: bool = False
    real: bool = False
    passes: str = ""
    of_integers: bool | None = None
    on_bools: str = ""
    on_complex: str = ""
    ordering: bool = False
    change: str = ""
    mirrored: str = ""
    commutes: bool = False
    cost: int = 0
    long: bool = False
    exact: str = ""
    points: tuple[float, ...] = ()

    def __call__(self, *args: Any) -> Any:
        """Evaluate on numbers and NumPy arrays, or defer to a symbolic operand."""
        for arg in args:
            if hasattr(arg, "__nbfused_op__"):
                return arg.__nbfused_op__(self.name, args)
        if len(args) != self.arity:
            raise TypeError(f"{self.name}() takes {self.arity} arguments, not "
                            f"{len(args)}")
        args = tuple(map(plain_number, args))
        numbers = all(type(arg) in (bool, int, float, complex) for arg in args)
        if numbers or (self.definition is not None and self.rule == "same"):
            args = tuple(np.asarray(arg) for arg in args)
        with np.errstate(all="ignore"):
            result = self.implementation(*args)
        return result.item() if numbers and hasattr(result, "item") else result

    def __repr__(self) -> str:
        return f"<nbfused {self.name}>"

    @property
    def __nbfused_op_name__(self) -> str:
        """By which the parser knows an operation among other callables."""
        return self.name

    @property
    def implementation(self) -> Callable[..., Any]:
        """A NumPy callable."""
        if self.definition is not None:
            return self.function
        found: Callable[..., Any] = self.numpy or getattr(np, self.rule)
        return found

    @property
    def function(self) -> Callable[..., Any]:
        """The Python function of a composite's `definition`; it has a source."""
        assert self.definition is not None
        if self.name not in _DEFINED:
            pyfile = f"<nbfused vocabulary: {self.name}>"
            linecache.cache[pyfile] = (len(self.definition), None,
                                       self.definition.splitlines(True), pyfile)
            namespace: dict[str, Any] = {**OPS, **_CASTS, "inf": np.inf}
            exec(compile(self.definition, pyfile, "exec"), namespace)
            _DEFINED[self.name] = namespace[self.name]
        return _DEFINED[self.name]


def define(name: str, partials: tuple[str | None, ...], doc: str, **facts: Any) -> None:
    """Add a row to `OPS`; `facts` are further fields of `Op`.

    Raises
    ------
    DefinitionError
        There is a row of that name, or its facts contradict one another.
    """
    facts = {"rule": name, "arity": len(partials), **facts}
    _check(name, partials, facts)
    facts.setdefault("python", facts.get("operator", "")[1:-1] or f"nf.{name}")
    OPS[name] = op = Op(name, partials, doc=doc, **facts)
    object.__setattr__(op, "__doc__", doc)  # which `help` shows


def _check(name: str, partials: tuple[str | None, ...], facts: dict[str, Any]) -> None:
    """Check a new row, before anything is derived from it."""
    if name in OPS:
        raise DefinitionError(f"{name}: the scalar language has this builtin already; "
                              "choose another name")
    unknown = facts.keys() - Op.__dataclass_fields__.keys()
    if unknown:
        raise DefinitionError(f"{name}: {', '.join(sorted(unknown))}: no such fact of "
                              "a builtin; expected fields of Op")
    if not partials and not facts.get("definition"):
        raise DefinitionError(f"{name}: no partial derivatives, and no definition to "
                              "differentiate; give them, None where one is zero")
    arity, rule = facts["arity"], facts["rule"]
    if partials and len(partials) != arity:
        raise DefinitionError(f"{name}: {len(partials)} partial derivatives for "
                              f"{arity} operands; give one for each, None where it is "
                              "zero, or none at all")
    taken = arity if rule == "same" else getattr(getattr(np, rule, None), "nin", None)
    if taken != arity:
        raise DefinitionError(
            f"{name}: rule={rule!r} is NumPy's function of {taken} operands, the "
            f"builtin has {arity}; name one of as many, whose dtypes it has, or 'same'"
            if taken else f"{name}: rule={rule!r} is no ufunc of NumPy; name the one "
            "whose dtypes it has, or 'same'")
