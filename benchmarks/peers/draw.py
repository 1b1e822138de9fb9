"""Random workloads: op, shape, dtype, layout, axis, forward or both ways.

Shapes are log-uniform, of primes, with axes of extent 1, narrow, or few and long: what
a list of workloads that somebody chose leaves out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import exp, isqrt, log, prod
from typing import Any

import numpy as np

from .workload import SIZE, Input, Workload, labels, normal

__all__ = ["draw"]

Shape = tuple[int, ...]

#: Elements at least: below, a call's overhead is what is measured; and of cells that
#: are checked only.
LEAST, SMALL = 1 << 16, 1 << 8
#: Elements, and multiplications of a product, at most.
MOST = {"cpu": (1 << 22, 1 << 30), "cuda": (1 << 26, 1 << 37)}
#: Elements of one factor of a product, as a multiple of the elements at most.
_FACTOR = 4

_DTYPES: dict[str, dict[str, float]] = {
    "cpu": {"float32": 0.55, "float64": 0.2, "bfloat16": 0.1, "float16": 0.1,
            "int32": 0.05},
    "cuda": {"float32": 0.4, "bfloat16": 0.35, "float16": 0.15, "float64": 0.05,
             "int32": 0.05}}
_MAPS = ("exp", "sin", "tanh", "sigmoid", "erf", "log1p", "absolute", "square", "relu",
         "gelu", "swish")
_REDUCTIONS = ("sum", "mean", "max", "var", "norm", "logsumexp", "argmax")
_ACTIVATIONS = ("relu", "gelu_tanh", "swish")
_BATCHES = (2, 5, 16, 64)
_FEW, _NARROW, _RANK = 8, 32, 4
_BOTH, _LAID_OUT = 0.35, 0.45


class _Dice:
    """The random choices of one workload on one device, `small` ones too or not."""

    def __init__(self, rng: np.random.Generator, device: str, small: bool) -> None:
        self.rng, self.least = rng, SMALL if small else LEAST
        self.most, self.flop = MOST["cpu" if device == "cpu" or small else "cuda"]

    def one_of(self, options: Any) -> Any:
        """One of some options."""
        return options[int(self.rng.integers(len(options)))]

    def chance(self, probability: float) -> bool:
        """True with a probability."""
        return bool(self.rng.random() < probability)

    def between(self, low: int, high: int) -> int:
        """A log-uniform integer."""
        return round(exp(self.rng.uniform(log(low), log(high))))

    def shape(self, least: int = 1) -> Shape:
        """A shape of so many axes or more, and of the elements at least."""
        count = self.between(self.least, self.most)
        rank = int(self.rng.integers(least, _RANK + 1))
        extents = self._split(count, rank)
        match self.one_of(("plain", "primes", "ones", "narrow", "few")):
            case "primes":
                extents = [_prime(n) for n in extents]
            case "ones":
                extents[self.one_of(range(rank))] = 1
            case "narrow" if rank > 1:
                last = int(self.rng.integers(2, _NARROW))
                extents = [*self._split(count//last, rank - 1), last]
            case "few" if rank > 1:
                few = int(self.rng.integers(1, _FEW + 1))
                extents = [few, *[1]*(rank - 2), count//few]
        longest = int(np.argmax(extents))
        rest = prod(extents)//extents[longest]
        extents[longest] = max(extents[longest], -(-self.least//rest))
        return tuple(extents)

    def _split(self, count: int, rank: int) -> list[int]:
        """Extents whose logarithms are random parts of that of `count`."""
        parts = self.rng.dirichlet([1.0]*rank)*log(max(count, 1))
        return [max(1, round(exp(part))) for part in parts]

    def product(self) -> tuple[int, int, int]:
        """Extents of a product, narrow ones too."""
        while True:
            m, n, k = self._split(self.between(self.least, self.flop), 3)
            if self.least <= max(m*k, k*n, m*n) <= _FACTOR*self.most:
                return m, n, k


def _prime(n: int) -> int:
    """The first prime from `n` on."""
    n = max(n, 2)
    while any(n % d == 0 for d in range(2, isqrt(n) + 1)):
        n += 1
    return n


#: Inputs, options, and what the name says beside them.
Drawn = tuple[tuple[Input, ...], dict[str, Any]]


def _map(dice: _Dice) -> Drawn:
    function = dice.one_of(_MAPS)
    return ((Input(dice.shape(), squared=function == "log1p"),),
            {"function": function})


def _pair(dice: _Dice) -> tuple[Input, ...]:
    """Two inputs, the second one often with axes of extent 1."""
    shape = dice.shape()
    other = tuple(1 if dice.chance(0.25) else n for n in shape)
    return normal(shape, other if dice.chance(0.5) else shape)


def _map2(dice: _Dice) -> Drawn:
    return _pair(dice), {"function": dice.one_of(("add", "multiply", "maximum"))}


def _reduce(dice: _Dice) -> Drawn:
    shape, function = dice.shape(), dice.one_of(_REDUCTIONS)
    axes = [d for d in range(len(shape)) if dice.chance(0.5)]
    axis: Any = axes[0] if len(axes) == 1 else tuple(axes) or None
    if function == "argmax" and isinstance(axis, tuple):
        axis = axis[0]
    return normal(shape), {"function": function, "axis": axis}


def _softmax(dice: _Dice) -> Drawn:
    shape = dice.shape()
    return normal(shape), {"axis": dice.one_of(range(len(shape)))}


def _rows(*rest: Callable[[Shape], Shape]) -> Callable[[_Dice], Drawn]:
    def rows(dice: _Dice) -> Drawn:
        shape = dice.shape(2)
        return normal(shape, *(of(shape) for of in rest)), {}

    return rows


def _columns(shape: Shape) -> Shape:
    return shape[-1:]


def _whole(shape: Shape) -> Shape:
    return shape


def _labelled(dice: _Dice) -> Drawn:
    rows, columns = dice._split(dice.between(dice.least, dice.most), 2)
    return (Input((rows, columns + 1)), labels(rows, columns + 1)), {}


def _take(dice: _Dice) -> Drawn:
    rows, columns = dice._split(dice.between(dice.least, dice.most), 2)
    return (Input((rows, columns)), labels(dice.between(max(1, rows//4), 2*rows),
                                           rows)), {}


def _matmul(dice: _Dice) -> Drawn:
    m, n, k = dice.product()
    batch = dice.one_of(_BATCHES)
    if dice.chance(0.3) and batch*max(m*k, k*n, m*n) <= _FACTOR*dice.most:
        return normal((batch, m, k), dice.one_of(((k, n), (batch, k, n)))), {}
    return normal((m, k), (k, n)), {}


def _linear(dice: _Dice) -> Drawn:
    m, n, k = dice.product()
    return normal((m, k), (k, n), (n,)), {"activation": dice.one_of(_ACTIVATIONS)}


_FAMILIES: dict[str, Callable[[_Dice], Drawn]] = {
    "map": _map, "map2": _map2, "ratio": lambda dice: (_pair(dice), {}),
    "reduce": _reduce, "softmax": _softmax, "log_softmax": _softmax,
    "layer_norm": _rows(_columns, _columns), "rms_norm": _rows(_columns),
    "add_rms_norm": _rows(_whole, _columns), "swiglu": _rows(_whole),
    "cross_entropy": _labelled, "take": _take, "matmul": _matmul, "linear": _linear,
}
#: How often each is drawn, 1 where nothing is said.
_WEIGHTS = {"map": 3.0, "map2": 2.0, "reduce": 4.0, "softmax": 2.0, "layer_norm": 1.5,
            "matmul": 2.5, "linear": 1.5}
#: Those that integers are drawn for.
_OF_INTEGERS = ("add", "multiply", "maximum", "sum", "max", "absolute", "square")
_PRODUCTS = ("matmul", "linear")


def draw(rng: np.random.Generator, device: str, *, small: bool = False) -> Workload:
    """Draw a workload for ``"cuda"`` or ``"cpu"``; a `small` one is for checks only."""
    dice = _Dice(rng, device, small)
    weights = np.array([_WEIGHTS.get(family, 1.0) for family in _FAMILIES])
    family = str(rng.choice(list(_FAMILIES), p=weights/weights.sum()))
    inputs, options = _FAMILIES[family](dice)
    dtypes = _DTYPES["cpu" if device == "cpu" else "cuda"]
    dtype = str(rng.choice(list(dtypes), p=list(dtypes.values())))
    function = options.get("function")
    if dtype == "int32" and function not in _OF_INTEGERS:
        dtype = "float32"
    both = dice.chance(_BOTH) and dtype != "int32" and function != "argmax"
    if dice.chance(_LAID_OUT):
        inputs = _laid_out(dice, inputs)
    count = sum(prod(x.shape) for x in inputs)
    return Workload(_name(family, inputs, options, both), family, inputs, dtype,
                    _flop(inputs) if family in _PRODUCTS else count*SIZE[dtype],
                    "FLOP" if family in _PRODUCTS else "B", both=both, options=options)


def _laid_out(dice: _Dice, inputs: tuple[Input, ...]) -> tuple[Input, ...]:
    """One of the first two inputs in another layout."""
    at = int(dice.rng.integers(min(2, len(inputs))))
    given = inputs[at]
    layout = dice.one_of(("transposed", "strided", "broadcast", "unaligned"))
    if given.classes or (layout == "transposed" and len(given.shape) < 2):
        return inputs
    laid = replace(given, transposed=True) if layout == "transposed" else \
        replace(given, layout=layout)
    return (*inputs[:at], laid, *inputs[at + 1:])


def _flop(inputs: tuple[Input, ...]) -> float:
    return 2.0*prod(inputs[0].shape)*inputs[1].shape[-1]


def _name(family: str, inputs: tuple[Input, ...], options: dict[str, Any],
          both: bool) -> str:
    said = [str(options.get("function", family)), *map(_of_input, inputs)]
    said += [f"{key} {value}" for key, value in options.items() if key != "function"]
    return " ".join(said) + ", both ways"*both


def _of_input(given: Input) -> str:
    layout = "transposed" if given.transposed else given.layout
    return "x".join(map(str, given.shape)) + f" {layout}"*bool(layout)
