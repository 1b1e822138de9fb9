"""Random arguments: arrays in many layouts, numbers of every kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tests.fuzz.program import Argument

if TYPE_CHECKING:
    from tests.fuzz.generator import Draft

__all__ = ["argument_list"]

SHAPES = ((3,), (2, 3), (3, 3), (2, 1), (1, 3), (4, 2, 3), (1,), (3, 1), (2, 3))
RARE = ((), (0,), (3, 0), (4, 1, 1), (17,), (2, 1, 2, 2), (5, 33))
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0)
#: How an array becomes one that is laid out otherwise; tensors have not the last.
LAYOUTS = ("{}", "{}", "{}", "{}", "np.asfortranarray({})", "{}.T",
           "np.repeat({}, 2, axis=-1)[..., ::2]", "np.array({}[None])[0]", "{}[::-1]")
OVERLAPS = ("{}", "{}.T", "np.flip({})")


def argument_list(draft: Draft) -> tuple[Argument, ...]:
    """One to three arrays, up to two numbers, sometimes one that shares memory."""
    shapes = [_shape(draft) for _ in range(1 + draft.integer(0, 2))]
    made = [Argument(f"x{k}", _array(draft, shapes[draft.integer(0, len(shapes))]))
            for k in range(draft.integer(1, 4))]
    if draft.chance(0.06) and not draft.flavor.orders:
        text = draft.choose(OVERLAPS[:2 if draft.flavor.tensors else None])
        made.append(Argument(f"x{len(made)}", text.format(draft.choose(made).name)))
    return (*made, *(_number(draft, f"n{k}") for k in range(draft.integer(0, 3))))


def _shape(draft: Draft) -> tuple[int, ...]:
    return draft.choose(RARE if draft.chance(0.1) else SHAPES)


def _array(draft: Draft, shape: tuple[int, ...]) -> str:
    """Mostly of the shape asked for, of one that broadcasts, or of no dimensions."""
    if draft.chance(0.12):
        shape = tuple(1 if draft.chance(0.4) else n for n in shape)
    elif draft.chance(0.1):
        shape = shape[1:]
    dtype = draft.choose(draft.flavor.dtypes)
    text = f"np.array({_values(draft, shape, np.dtype(dtype).kind)}, '{dtype}')"
    layout = draft.choose(LAYOUTS[:-1 if draft.flavor.tensors else None])
    if 0 in shape:
        return f"np.zeros({shape}, '{dtype}')"
    return layout.format(text) if shape else text


def _values(draft: Draft, shape: tuple[int, ...], kind: str) -> str:
    rng = draft.rng
    match kind:
        case "b":
            values = rng.integers(0, 2, shape).astype(bool)
        case "u":
            values = rng.integers(0, 6, shape)
        case "i":
            values = rng.integers(-5, 6, shape)
        case "c":
            values = (rng.uniform(-2, 2, shape) + 1j * rng.uniform(-2, 2, shape)
                      ).round(2)
        case _:
            values = np.asarray(rng.uniform(-2, 2, shape).round(3))
            if draft.flavor.special:
                spots = rng.random(shape) < 0.3
                values = np.where(spots, rng.choice(SPECIAL, shape), values)
    return str(np.asarray(values).tolist())


#: Numbers of Python and NumPy, arrays without dimensions: of a real, a whole number.
_DOUBLE = ("{0}", "{1}", "np.float64({0})", "np.array({0})")
_OTHER = ("np.float32({0})", "np.array({0}, 'f4')", "np.array({1}, 'i4')",
          "np.int64({1})", "np.int8({1})", "True", "np.float16({0})")
_COMPLEX = ("({0}-1j)", "np.complex64({1}+2j)")


def _number(draft: Draft, name: str) -> Argument:
    """One number, and another of its type."""
    choices = _DOUBLE[:2] if draft.flavor.tensors else _DOUBLE
    if draft.flavor.dtypes != ("f8",) and not draft.flavor.tensors:
        choices += _OTHER
    if "c8" in draft.flavor.dtypes:
        choices += _COMPLEX
    text = draft.choose(choices)
    return Argument(name, *(text.format(round(float(draft.rng.uniform(0.3, 2)), 2),
                                        draft.integer(1, 4)) for _ in range(2)))
