"""The conformance suite: every op on a backend, against NumPy in float64.

Declared once: a new op is in it by existing.  `checks` lists what can be run; each
`Check` is independent, so a test runner can show them one by one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from ml_dtypes import finfo

from ..arrays import to_numpy
from ..autograd.gradcheck import gradcheck, gradients
from ..errors import SettingError
from ..op import Case
from ..registry.operations import OPS
from ..support.dtypes import number_kind
from ..support.records import record
from .sampling import DTYPES, draw, elementwise_shapes, lay_out, send, special

__all__ = ["Check", "assert_matches_reference", "checks", "run"]

#: Layouts of arrays whose shapes a case gives; the first one for every dtype.
SHAPED = ("contiguous", "reversed", "strided", "fortran")


#: Ops that stand for their skeleton where every dtype is tested.
REPRESENTATIVE = frozenset({
    "add", "argmax", "astype", "cross_entropy", "equal", "exp", "floor_divide",
    "layer_norm", "linear", "matmul", "max", "mean", "negative", "prod", "reshape",
    "softmax", "sum", "swish", "take", "where",
})


@record(frozen=True)
class Check:
    """A check of one op on one kind of input; a call raises `AssertionError`."""

    op: str
    kind: str
    case: int
    dtype: np.dtype
    layout: str = "contiguous"
    shapes: tuple[tuple[int, ...], ...] = ()

    def __str__(self) -> str:
        extent = "_".join("x".join(map(str, s)) or "scalar" for s in self.shapes)
        parts = (self.op, self.kind, str(self.case), self.dtype.name, self.layout,
                 extent)
        return "-".join(p for p in parts if p)

    def __call__(self, device: str = "cpu") -> None:
        """Run the check on a device."""
        {"value": _value, "special": _special, "gradient": _gradient,
         "low-gradient": _low_gradient}[self.kind](self, device)


def checks(ops: Sequence[str] | None = None, *, thorough: bool = False) -> list[Check]:
    """All checks that a backend must pass.

    Parameters
    ----------
    ops : sequence of str, optional
        Names in the table; default: all.
    thorough : bool
        Every dtype for every op; otherwise float32 for all, float64 for gradients, and
        the other dtypes for the ops in `REPRESENTATIVE`.

    Raises
    ------
    SettingError
        A name is not in the table.
    """
    from .. import ops as _  # noqa: F401 - fills the table

    unknown = [name for name in ops or () if name not in OPS]
    if unknown:
        raise SettingError(f"ops: {', '.join(map(repr, unknown))} is no op of the "
                           "table; expected names such as gelu, as in nbfused.ops")
    return [c for name in ops or OPS for c in _of_op(name, OPS[name], thorough)]


def run(device: str = "cpu", ops: Sequence[str] | None = None) -> list[str]:
    """Run the suite and return a line for each failure."""
    failures = []
    for check in checks(ops):
        try:
            check(device)
        except Exception as error:
            failures.append(f"{check}: {type(error).__name__}: {error}")
    return failures


def assert_matches_reference(op: Any, device: str = "cpu") -> None:
    """Run all checks of one op, and raise on the first failure."""
    for check in _of_op(op.__name__, op, True):
        check(device)


def _of_op(name: str, op: Any, thorough: bool) -> Iterator[Check]:
    every = thorough or name in REPRESENTATIVE
    for number, case in enumerate(op.cases):
        yield from _values(name, op, number, case, every)
        if not case.shapes and "f" in case.dtypes:
            for dtype in DTYPES["f"][:4 if thorough else 1]:
                yield Check(name, "special", number, dtype)
        if case.smooth and "f" in case.dtypes:
            yield Check(name, "gradient", number, np.dtype("float64"))
            if number == 0:
                yield from (Check(name, "low-gradient", number, d)
                            for d in DTYPES["f"][:None if every else 1]
                            if d != np.float64)


def _values(name: str, op: Any, number: int, case: Case,
            every: bool) -> Iterator[Check]:
    kinds = [k for k in "fbiuc" if k in case.dtypes]
    for position, dtype in enumerate(d for k in kinds for d in DTYPES[k]):
        first = position == 0
        if not first and (number or not every):
            continue
        if case.shapes:
            for layout in SHAPED if first else SHAPED[:1]:
                yield Check(name, "value", number, dtype, layout)
        else:
            yield from _elementwise(name, op, number, dtype, first)


def _elementwise(name: str, op: Any, number: int, dtype: np.dtype,
                 full: bool) -> Iterator[Check]:
    nin = _arrays(op)
    if not full:
        yield Check(name, "value", number, dtype, "contiguous", ((33,),) * nin)
        yield Check(name, "value", number, dtype, "reversed", ((5, 7),) * nin)
        return
    for _, shapes in elementwise_shapes(nin):
        yield Check(name, "value", number, dtype, "contiguous", shapes)
    for layout in ("fortran", "reversed", "strided", "constant"):
        yield Check(name, "value", number, dtype, layout, ((5, 7),) * nin)


def _arrays(op: Any) -> int:
    """The parameters that are arrays: those without a default."""
    parameters = getattr(op, "scalar", op).signature.parameters
    return sum(p.default is p.empty for p in parameters.values())


def inputs_of(check: Check, dtype: np.dtype) -> list[Any]:
    """The arguments of a check, equal for every backend."""
    case: Case = OPS[check.op].cases[check.case]
    seed = f"{check.op}-{check.case}-{check.dtype.name}-{check.layout}"
    rng = np.random.default_rng(zlib.crc32(seed.encode()))
    shapes = check.shapes or case.shapes or ((5, 7),) * _arrays(OPS[check.op])
    return [None if s is None else
            lay_out(draw(rng, s, dtype, case.domain(k)), check.layout)
            for k, s in enumerate(shapes)]


def place_on(device: str) -> Callable[[Any], Any]:
    """A function that copies arrays to a device, with their layout."""
    if device == "cpu":
        return lambda x: x
    return lambda x: send(x, device) if isinstance(x, np.ndarray) else x


def _tuple(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


def _widen(x: Any) -> Any:
    inexact = isinstance(x, np.ndarray) and x.dtype.kind in "fV"
    return x.astype(np.float64) if inexact else x


def _value(check: Check, device: str) -> None:
    op = OPS[check.op]
    case: Case = op.cases[check.case]
    inputs = inputs_of(check, check.dtype)
    found = _tuple(op(*map(place_on(device), inputs), **case.kwargs))
    with np.errstate(all="ignore"):
        expected = _tuple(op.reference(*map(_widen, inputs), **case.kwargs))
    scale = _scale(case, inputs, expected)
    for f, e in zip(found, expected, strict=True):
        _compare(check, to_numpy(f), np.asarray(e), check.dtype, op.tolerance, scale)


def _scale(case: Case, inputs: list[Any], expected: tuple[Any, ...]) -> float:
    """The magnitude of what was summed, to which errors are relative."""
    if not case.shapes:
        return 0.0
    sizes = [float(np.abs(np.asarray(e, np.float64)).max(initial=0.0)) for e in expected
             if np.asarray(e).dtype.kind in "fiu"]
    sizes += [float(np.abs(x).astype(np.float64).max(initial=0.0)) for x in inputs
              if isinstance(x, np.ndarray) and x.dtype.kind in "fV"]
    return max(sizes, default=0.0)


def _compare(check: Check, found: np.ndarray, expected: np.ndarray, dtype: np.dtype,
             tolerance: float, scale: float) -> None:
    inexact = number_kind(dtype) == "f"
    want = dtype if inexact and expected.dtype == np.float64 and "dtype" not in \
        OPS[check.op].cases[check.case].kwargs else expected.dtype
    assert found.shape == expected.shape, f"shape {found.shape}, not {expected.shape}"
    assert found.dtype == want, f"dtype {found.dtype}, not {want}"
    if expected.dtype.kind in "biu":
        np.testing.assert_array_equal(found, expected)
        return
    close(found, expected, tolerance, scale)


def close(found: np.ndarray, expected: np.ndarray, tolerance: float,
          scale: float = 0.0) -> None:
    """Assert that arrays agree within `tolerance` units of the dtype's eps."""
    dtype = found.dtype
    eps = float(finfo(dtype).eps) if dtype.kind in "fVc" else 0.0
    with np.errstate(all="ignore"):
        rounded = np.asarray(expected.astype(dtype)).astype(
            np.complex128 if dtype.kind == "c" else np.float64)
        got = found.astype(rounded.dtype)
        finite = np.isfinite(rounded) & np.isfinite(got)
        np.testing.assert_array_equal(np.where(finite, 0, got),
                                      np.where(finite, 0, rounded))
        allowed = tolerance * (eps * (np.abs(rounded) + scale)
                               + float(finfo(dtype).smallest_normal))
        error = np.where(finite, np.abs(got - rounded), 0)
    over = np.where(finite, error - np.where(finite, allowed, 0), -1.0)
    if np.any(over > 0):
        worst = int(np.argmax(over))
        raise AssertionError(
            f"at {tuple(map(int, np.unravel_index(worst, over.shape)))}: got "
            f"{found.flat[worst]!s} in {dtype}, expected {rounded.flat[worst]!s}, a "
            f"difference of {np.ravel(error)[worst]:.3g}; {tolerance:g} units of eps "
            f"allow {np.ravel(allowed)[worst]:.3g}: see tolerance of nbfused.op.op")


def _special(check: Check, device: str) -> None:
    """Compare zeros, infinities and NaN with the same function in float64."""
    op = OPS[check.op]
    case: Case = op.cases[check.case]
    values = special(check.dtype)
    inputs = np.meshgrid(*(values,) * _arrays(op), indexing="ij")
    found = to_numpy(op(*map(place_on(device), inputs), **case.kwargs))
    with np.errstate(all="ignore"):
        expected = np.asarray(op.reference(*map(_widen, inputs), **case.kwargs))
    _compare(check, found, expected, check.dtype, op.tolerance, 0.0)


def _gradient(check: Check, device: str) -> None:
    op = OPS[check.op]
    case: Case = op.cases[check.case]
    inputs = inputs_of(check, check.dtype)
    gradcheck(lambda *a: op(*a, **case.kwargs), inputs, place=place_on(device),
              reference=lambda *a: op.reference(*a, **case.kwargs), tolerance=3e-6)


def _low_gradient(check: Check, device: str) -> None:
    """Compare gradients of a narrow dtype with those of float64."""
    op = OPS[check.op]
    case: Case = op.cases[check.case]
    low = inputs_of(check, check.dtype)

    def function(*a: Any) -> Any:
        return op(*a, **case.kwargs)

    shape = np.shape(_tuple(op.reference(*map(_widen, low), **case.kwargs))[0])
    g = np.random.default_rng(1).uniform(0.5, 1.5, shape).astype(check.dtype)
    found = gradients(function, low, cotangent=g, place=place_on(device))
    expected = gradients(function, list(map(_widen, low)), place=place_on(device),
                         cotangent=g.astype(np.float64))
    for f, e in zip(found, expected, strict=True):
        if f is not None and e is not None:
            assert f.dtype == check.dtype, f"gradient dtype {f.dtype}"
            close(f, e, 4 * op.tolerance, float(np.abs(e).max(initial=1.0)))
