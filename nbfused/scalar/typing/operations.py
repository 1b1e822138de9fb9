"""Typing of single operations: operands cast to what NumPy computes them in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..ir.emit import fold
from ..ir.nodes import UNFOLDED, Let, Literal, Value, literal
from ..language.vocabulary import OPS
from .accesses import Accesses
from .literals import convert, is_weak, literal_type, number
from .promotion import (
    BOOL,
    Type,
    Weak,
    compute_dtype,
    dtype_named,
    is_integer,
    promote,
    resolve,
)
from .values import INT64, UINT8, UINT64, Operand

__all__ = ["Operations"]

#: Exponents of floats that are products: others have more roundings than a power.
_FACTORS = frozenset({-1, 1, 2, 3, 4})


class Operations(Accesses):
    """Each method lowers one kind of operation."""

    def resolved(self, op: str,
                 args: Sequence[Operand]) -> tuple[tuple[Type, ...], Type]:
        """Operand types and result type of `op`."""
        types = tuple(t for _, t in args)
        try:
            return resolve(OPS[op].rule, types)
        except TypeError as e:
            got = ", ".join(str(t) for t in types)
            what = f"{op} does not take ({got})"
            raise (self.complex_error(what, str(e)) if "complex" in got
                   else self.error(f"{what}: {e}")) from None

    def elementary(self, s: Let, args: Sequence[Operand]) -> None:
        """An operation of the printers, its operands cast to their common dtype."""
        op, result, row = s.op, s.results[0], OPS[s.op]
        folded = fold(op, tuple(v for v, _ in args)) if is_weak(args) else None
        if folded is not None:
            return self.bind(result, (folded, literal_type(folded)))
        targets, t = self.resolved(op, args)
        if op.startswith("logical_"):
            targets = (BOOL,)*len(args)
        values = self.coerce_all(args, targets)
        kind = self.compute(targets[0]).kind
        self.check_real(op, kind)
        if row.of_integers is not None and kind in "biu":
            return self.bind(result, (literal(row.of_integers), Weak("bool")))
        if kind in row.passes:
            return self.bind(result, (values[0], t))
        if kind == "b" and row.on_bools:
            op = row.on_bools
        if op == "ne":
            return self.compare(op, result, list(zip(values, targets, strict=True)))
        self.emit(op, values, t, name=result)
        return None

    def check_real(self, op: str, kind: str) -> None:
        """Refuse complex operands where NumPy or the printers have real ones only."""
        if OPS[op].real and kind == "c":
            raise self.complex_error(f"{op} does not take complex numbers",
                                     "take .real or .imag")

    def compare(self, op: str, result: str, args: Sequence[Operand]) -> None:
        """A comparison is exact between integers of any two types."""
        folded = fold(op, tuple(v for v, _ in args)) if is_weak(args) else \
            self.out_of_range(op, args)
        if folded is not None:
            return self.bind(result, (folded, literal_type(folded)))
        if is_integer(promote(*(t for _, t in args))):
            args = [(v, INT64) if t == Weak("int") and isinstance(v, str) and
                    not is_weak(args, types=True) else (v, t) for v, t in args]
        targets, t = self.resolved(op, args)
        values = self.coerce_all(args, targets)
        kinds = {self.compute(u) for u in targets}
        if kinds == {INT64, UINT64}:
            return self.compare_signs(op, result, values, self.compute(targets[0]))
        if kinds == {BOOL}:
            values = self.coerce_all(list(zip(values, targets, strict=True)),
                                     (UINT8, UINT8))
        if kinds.pop().kind == "c" and op not in ("eq", "ne"):
            raise self.complex_error(f"{op} does not order complex numbers",
                                     "compare .real")
        self.emit(op, values, t, name=result)
        return None

    def out_of_range(self, op: str, args: Sequence[Operand]) -> Literal | None:
        """An integer literal beyond the other's dtype is above or below all of it."""
        for (v, _), (_, t) in (args, args[::-1]):
            if isinstance(v, Literal) and v.kind == "int" and not isinstance(t, Weak) \
                    and t.kind in "iu":
                info = np.iinfo(t)
                if not info.min <= int(v.text) <= info.max:
                    return fold(op, tuple(a if isinstance(a, Literal) else literal(0)
                                          for a, _ in args))
        return None

    def compare_signs(self, op: str, result: str, values: tuple[Value, ...],
                      first: np.dtype) -> None:
        """int64 against uint64, for which no common dtype exists."""
        a, b = values
        if first == UINT64:
            op, a, b = OPS[op].mirrored, b, a
        zero = Literal("int64", "0")
        same, _ = self.emit(op, (self.coerce((a, INT64), UINT64), b), BOOL)
        if op in ("lt", "le", "ne"):
            below, _ = self.emit("lt", (a, zero), BOOL)
            self.emit("logical_or", (below, same), BOOL, name=result)
        else:
            above, _ = self.emit("ge", (a, zero), BOOL)
            self.emit("logical_and", (above, same), BOOL, name=result)

    def lower_id(self, s: Let, args: list[Operand]) -> None:
        """The operand itself; so is `detach` of a value."""
        self.bind(s.results[0], args[0])

    lower_detach = lower_id

    def lower_logical_and(self, s: Let, args: list[Operand]) -> None:
        """False where an operand is known to be."""
        if any(isinstance(v, Literal) and not number(v) for v, _ in args):
            return self.bind(s.results[0], (literal(False), Weak("bool")))
        return self.elementary(s, args)

    def lower_select(self, s: Let, args: list[Operand]) -> None:
        """Both sides in the type that joins them."""
        (condition, ct), *sides = args
        t = promote(*(t for _, t in sides))
        if isinstance(condition, Literal):
            taken = sides[0 if number(condition) else 1]
            return self.bind(s.results[0], (self.coerce(taken, t), t))
        if sides[0] == sides[1]:
            return self.bind(s.results[0], sides[0])
        self.emit("select", (self.coerce((condition, ct), BOOL),
                             *self.coerce_all(sides, (t, t))), t, name=s.results[0])
        return None

    def lower_powi(self, s: Let, args: list[Operand]) -> None:
        """With an integer exponent the base is multiplied with itself."""
        (base, exponent), op = args, "powi"
        folded = fold(op, (base[0], exponent[0])) if is_weak(args) else None
        if folded is not None:
            return self.bind(s.results[0], (folded, literal_type(folded)))
        _, t = self.resolved(op, args)
        if is_integer(t) and isinstance(exponent[0], Literal) \
                and int(number(exponent[0]).real) < 0:
            if not isinstance(t, Weak):
                raise self.error("integers to negative integer powers are not allowed; "
                                 "cast the base to a floating dtype")
            t = Weak("float")
        known = isinstance(exponent[0], Literal) and abs(int(number(
            exponent[0]).real)) <= 64
        if not is_integer(t) and not (known and isinstance(exponent[1], Weak)):
            return self.elementary(replace(s, op="pow"), args)
        whole = UINT64 if exponent[1] == UINT64 else INT64
        self.emit(op, (self.coerce(base, t), self.coerce(exponent, whole)), t,
                  name=s.results[0])
        return None

    def lower_pow(self, s: Let, args: list[Operand]) -> None:
        """Integers to the power of integers multiply, as do a few known exponents."""
        _, t = self.resolved("pow", args)
        base, (exponent, _) = args
        if is_integer(t):
            return self.lower_powi(s, args)
        if isinstance(exponent, Literal) and number(exponent) in _FACTORS and not (
                is_weak([base]) or self.compute(t).kind == "c"):
            whole = literal(int(number(exponent).real))
            self.emit("powi", (self.coerce(base, t), self.coerce(
                (whole, Weak("int")), INT64)), t, name=s.results[0])
            return None
        return self.elementary(s, args)

    def lower_imag(self, s: Let, args: list[Operand]) -> None:
        """Zero for a real operand."""
        (t,), result = self.resolved("imag", args)
        if self.compute(t).kind == "c":
            return self.elementary(s, args)
        zero = convert(literal(0), self.compute(result))
        return self.bind(s.results[0], (zero, result))

    def lower_complex_from(self, s: Let, args: list[Operand]) -> None:
        """The complex dtype of twice the size."""
        targets, t = self.resolved("complex_from", args)
        result = np.result_type(self.compute(t), np.complex64)
        self.emit("complex_from", self.coerce_all(args, targets), result,
                  name=s.results[0])

    def lower_cast(self, s: Let, args: list[Operand]) -> None:
        """`attr` is a dtype's name, a kind of Python's numbers, or `UNFOLDED`."""
        value, t = args[0]
        if s.attr == UNFOLDED:
            whole = self.coerce(args[0], INT64)
            self.emit("cast", (whole,), t, name=s.results[0], attr=INT64.name)
            return None
        result, target = s.results[0], _cast_target(str(s.attr), t)
        if target == t:
            return self.bind(result, (value, t))
        if isinstance(value, Literal):
            return self.bind(result, (self.cast_literal(value, target), target))
        if not isinstance(target, Weak) and compute_dtype(target) != target:
            # A float16 on the way is rounded to one, though computed in float32.
            self.emit("cast", (value,), target, name=result, attr=target.name)
            return None
        return self.bind(result, (self.coerce((value, t), target), target))

    def lower_bits(self, s: Let, args: list[Operand]) -> None:
        """The bits of an operand, taken as one of the size, as the dtype `attr`."""
        target, (_, t) = dtype_named(str(s.attr)), args[0]
        if isinstance(t, Weak) or t.itemsize != target.itemsize or not {
                t.kind, target.kind} <= set("iuf"):
            raise self.error(f"the bits of {t} are not those of {target.name}; numbers "
                             "of one size are read so, as float32 and int32: cast it "
                             f"first, as in np.float{8*target.itemsize}(x)")
        if t.kind in "iu" and target.kind in "iu":
            return self.bind(s.results[0], (self.coerce(args[0], target), target))
        if t == target:
            return self.bind(s.results[0], args[0])
        value = self.coerce(args[0], t)
        self.emit("bits", (value,), target, name=s.results[0], attr=target.name)
        return None

    def cast_literal(self, value: Literal, target: Type) -> Literal:
        """A number that the source casts."""
        try:
            return convert(value, target.kind if isinstance(target, Weak) else target,
                           explicit=True)
        except (OverflowError, ValueError):
            raise self.error(f"{value.text} has no value as {target}") from None


def _cast_target(attr: str, t: Type) -> Type:
    """The type that ``int()``, ``float()``, ``bool()`` or a dtype makes of `t`."""
    if attr == "bool":
        return Weak("bool") if isinstance(t, Weak) else BOOL
    if attr == "int":  # a Python number: what has fewer bits wraps around no longer
        return t if is_integer(t) and _holds_python(t) else Weak("int")
    if attr == "float":
        floating = t.kind in ("float", "complex") if isinstance(t, Weak) else \
            t.kind in "fc" or t.kind not in "biu"
        return t if floating else Weak("float")
    if attr == "complex":
        return t if t.kind in ("c", "complex") else Weak("complex")
    return dtype_named(attr)


def _holds_python(t: Type) -> bool:
    """Whether an integer type is as wide as a kernel's Python integers."""
    return isinstance(t, Weak) or t.itemsize == 8
