"""The text of a reduction's state, as ``hip/states.h`` asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from ...scalar.ir.nodes import Let, Literal, walk
from ...scalar.language.vocabulary import OPS
from ...scalar.printing.hip import cast, ctype, literal
from ...scalar.typing.promotion import compute_dtype
from ...scalar.typing.types import Typed
from ...support.dtypes import DTYPES, storage
from .source import Source, evaluate

__all__ = ["declare_state", "is_long", "return_state", "state_parts", "state_size"]

#: Of a merge, beyond which it is not worth to be repeated in the text.
STEPS = 12


def is_long(functions: Iterable[Typed]) -> bool:
    """Whether fewer elements at a time are better, for want of registers."""
    for typed in functions:
        if any(d.kind in "fc" and d.itemsize >= 8 for d in typed.dtypes.values()):
            return True
        if any(isinstance(s, Let) and s.op in OPS and OPS[s.op].long
               for s in walk(typed.function.body)):
            return True
    return False


def _steps(typed: Typed) -> int:
    return sum(1 for _ in walk(typed.function.body))


def state_parts(count: int, name: str) -> list[str]:
    """Texts of the parts of the state called `name`."""
    return [f"{name}.s{k}" for k in range(count)]


def state_size(dtypes: Sequence[np.dtype]) -> int:
    """Bytes of the struct ``State``."""
    return np.dtype([(f"s{k}", storage(d)) for k, d in enumerate(dtypes)],
                    align=True).itemsize


def declare_state(out: Source, merge: Typed, identity: Sequence[Literal],
                  dtypes: Sequence[np.dtype]) -> None:
    """Write ``State``, ``LONG``, ``identity``, ``merge`` and ``exchange``."""
    count = len(dtypes)
    members = " ".join(f"{ctype(d)} s{k};" for k, d in enumerate(dtypes))
    neutral = ", ".join(literal(DTYPES[i.kind], i.value) for i in identity)
    shuffled = ", ".join(f"nbf::shuffle_xor({s}, mask)"
                         for s in state_parts(count, "s"))
    out(f"struct State {{ {members} }};",
        f"static_assert(sizeof(State) == {state_size(dtypes)}, \"as Python has it\");",
        f"static constexpr bool LONG = {str(_steps(merge) > STEPS).lower()};",
        f"NBF_DEVICE State identity() {{ return {{{neutral}}}; }}")
    with out.block("NBF_DEVICE State merge(const State &a, const State &b)"):
        both = (*state_parts(count, "a"), *state_parts(count, "b"))
        return_state(out, merge, dtypes,
                     dict(zip(merge.function.params, both, strict=True)))
    out("NBF_DEVICE State exchange(const State &s, int mask) "
        f"{{ return {{{shuffled}}}; }}")


def return_state(out: Source, typed: Typed, dtypes: Sequence[np.dtype],
                 arguments: Mapping[str, object],
                 store: Callable[[Sequence[str]], None] | None = None) -> None:
    """Write ``return typed(arguments)``, cast to the state's dtypes.

    Results beyond the state are given to `store` before, by their texts.
    """
    lines, results = evaluate(typed, arguments, "v_")
    parts = [cast(compute_dtype(d), s, r)
             for d, s, r in zip(typed.results, dtypes, results, strict=store is None)]
    out(*lines)
    if store is not None:
        store(results[len(dtypes):])
    out(f"return {{{', '.join(parts)}}};")
