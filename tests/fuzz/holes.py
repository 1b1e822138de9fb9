"""What fills the holes of a template: numbers, axes, shapes, indices, conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tests.fuzz.generator import Draft

__all__ = ["HOLES", "NoFit", "operand_of"]

#: Numbers that are written down, by the kind of the array beside them.
NUMBERS = {"f": ("0.5", "-1.25", "2", "3", "np.float64(1.5)", "0.75", "True"),
           "i": ("2", "-3", "1", "True", "0.5", "np.int8(3)"),
           "u": ("2", "3", "1", "True", "0.5"), "b": ("2", "True", "0.5", "False"),
           "c": ("2", "0.5", "(1-2j)", "1j")}
DTYPES = ("f8", "f4", "f2", "i4", "i8", "u1", "i2", "?")


class NoFit(Exception):
    """Nothing at hand fits a template."""


def _number(draft: Draft, a: Any) -> str:
    given = [n for n in draft.numbers() if draft.flavor.dtypes != ("f8",) or
             not isinstance(draft.scope[n], np.float32)]
    if given and draft.chance(0.45):
        return draft.choose(given)
    texts = NUMBERS[a.dtype.kind]
    return draft.choose([t for t in texts if not (draft.flavor.tensors and "np" in t)])


def _divisor(draft: Draft, a: Any) -> str:
    return draft.choose(("2", "3") if a.dtype.kind in "iub" else ("2", "0.75", "1.5"))


def _axis(draft: Draft, a: Any) -> int:
    if not a.ndim:
        raise NoFit
    return draft.integer(-a.ndim, a.ndim)


def _axes(draft: Draft, a: Any) -> str:
    """An axis, several, or none: as the value of ``axis=``; empty for all."""
    if a.ndim > 1 and draft.chance(0.2):
        return f"axis={tuple(sorted(draft.sample(range(a.ndim), 2)))}"
    return f"axis={_axis(draft, a)}" if a.ndim and draft.chance(0.75) else "axis=None"


def _permutation(draft: Draft, a: Any) -> str:
    return ", ".join(map(str, draft.sample(range(a.ndim), a.ndim)))


def _shape(draft: Draft, a: Any) -> str:
    shapes = [(-1,), (1, *a.shape), (*a.shape, 1), tuple(reversed(a.shape))]
    if a.size and a.size % 2 == 0:
        shapes += [(2, -1), (a.size // 2, 2)]
    return str(draft.choose(shapes))


def _wider(draft: Draft, a: Any) -> str:
    if a.size > 24:
        raise NoFit
    return str((draft.integer(1, 4), *(draft.choose((2, 3)) if n == 1 else n
                                       for n in a.shape)))


def _index(draft: Draft, a: Any) -> str:
    """Slices, integers, ``...`` and None."""
    if not a.ndim or 0 in a.shape:
        raise NoFit
    items = []
    for n in a.shape[:draft.integer(1, a.ndim + 1)]:
        items.append(draft.choose((
            ":", "1:", ":-1", "::-1", "::2", f"{draft.integer(-n, n)}",
            f"{draft.integer(0, n)}:{n}", "-2:")))
    if len(items) < a.ndim and draft.chance(0.2):
        items.insert(0, "...")
    if draft.chance(0.15):
        items.insert(draft.integer(0, len(items) + 1), "None")
    return f"[{', '.join(items)}]"


def _indices(draft: Draft, a: Any) -> str:
    if not a.ndim or not a.shape[0]:
        raise NoFit
    low = 0 if draft.flavor.tensors else -a.shape[0]
    return str([draft.integer(low, a.shape[0]) for _ in range(draft.integer(1, 4))])


def _condition(draft: Draft, a: Any) -> str:
    """A mask: a name, or a comparison."""
    fitting = [n for n, x in draft.arrays("b") if draft.broadcast(x, a)]
    if fitting and draft.chance(0.6):
        return draft.choose(fitting)
    real = [n for n, x in draft.arrays("iuf") if draft.broadcast(x, a)]
    if not real:
        raise NoFit
    return f"{draft.choose(real)} {draft.choose(('>', '<', '!='))} " \
           f"{draft.choose(('0', '1', '0.3'))}"


def _dtype(draft: Draft, a: Any) -> str:
    if draft.flavor.special:  # inf as an integer is another on each machine
        return draft.choose(draft.flavor.dtypes)
    return draft.choose(draft.flavor.dtypes if draft.chance(0.5) else DTYPES)


def _square(draft: Draft, a: Any) -> str:
    """A square matrix that is far from singular."""
    if a is None:  # alone
        found = [(n, x) for n, x in draft.arrays("f")
                 if x.ndim == 2 and x.shape[0] == x.shape[1]]
        return _dominant(*draft.choose(found))
    found = [(n, x) for n, x in draft.arrays("f") if x.ndim == 2
             and x.shape[0] == x.shape[1] == a.shape[-2]]
    return _dominant(*draft.choose(found))


def _dominant(name: str, value: Any) -> str:
    return f"(np.tanh({name}) + {len(value) + 1} * np.eye({len(value)}))"


def _one_of(*texts: str) -> Callable[[Draft, Any], str]:
    return lambda draft, a: draft.choose(texts)


#: Hole -> its text, from the draft and the value of ``{a}``.
HOLES: dict[str, Callable[[Draft, Any], Any]] = {
    "n": _number, "m": _divisor,
    "k": lambda draft, a: draft.choose(("2", "3", "1", "0")),
    "p": lambda draft, a: draft.choose(("0.5", "1.5", "2", "-1.0", "3", "2.0")),
    "axis": _axes, "axis0": _axis, ",axis": lambda draft, a: f", {_axes(draft, a)}",
    ",one axis": lambda draft, a: f", axis={_axis(draft, a)}",
    "keep": lambda draft, a: draft.choose(("", ", keepdims=True")),
    "axes": _permutation, "shape": _shape, "wider": _wider, "index": _index,
    "indices": _indices, "c": _condition, "dtype": _dtype,
    "t": lambda draft, a: draft.new_name(),
    "shift": _one_of("0", "1", "-1", "2", "-3"), "reps": _one_of("1", "2", "3"),
    "width": _one_of("1", "(0, 2)", "(2, 1)"), "bit": _one_of("0", "1"),
    "order": _one_of("1", "2"), "flag": _one_of("True", "False"),
    ",mode": _one_of("", ", mode='wrap'", ", axis=0", ", axis=-1, mode='clip'"),
    "mode": _one_of("full", "same", "valid"), "share": _one_of("0.25", "0.6", "1"),
    "norm": _one_of("1", "2", "np.inf", "None", "3"), "lower": _one_of("-1", "None"),
    "upper": _one_of("0.5", "2"), "square": _square,
}

#: How to bring values into a domain: the text, and the range of what it gives.
_WRAPS = (("({0} * {0} + 0.5)", "f"), ("(np.sin({0}) + 1.5)", "f"),
          ("np.tanh({0})", "f"), ("(0.8 * np.sin({0}))", "f"),
          ("(np.cos({0}) + 2.5)", "f"), ("(abs({0}) % 3 + 1)", "iu"))


def operand_of(text: str, value: Any, domain: tuple[float, float],
               evaluate: Callable[[str], Any]) -> tuple[str, Any]:
    """`text`, wrapped if its values are outside of the domain.

    Raises
    ------
    NoFit
        No wrap brings them there.
    """
    if domain[0] == -np.inf or _within(value, domain):
        return text, value
    for wrap, kinds in _WRAPS:
        if value.dtype.kind in kinds:
            found = evaluate(wrap.format(text))
            if _within(found, domain):
                return wrap.format(text), found
    raise NoFit


def _within(value: Any, domain: tuple[float, float]) -> bool:
    return value.dtype.kind != "c" and bool(
        np.all((value >= domain[0]) & (value <= domain[1])))
