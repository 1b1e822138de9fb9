"""The text of a reduction's state: what ``hip/states.h`` calls a `Pass` has of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..scalar.ir import Literal
from ..scalar.print_hip import cast, ctype, literal
from ..scalar.promotion import DTYPES, compute_dtype
from ..scalar.types import Typed
from .source import Source, evaluate, storage

__all__ = ["declare_state", "return_state", "state_parts", "state_size"]


def state_parts(count: int, name: str) -> list[str]:
    """Texts of the parts of the state called `name`."""
    return [f"{name}.s{k}" for k in range(count)]


def state_size(dtypes: Sequence[np.dtype]) -> int:
    """Bytes of the struct ``State``."""
    return np.dtype([(f"s{k}", storage(d)) for k, d in enumerate(dtypes)],
                    align=True).itemsize


def declare_state(out: Source, merge: Typed, identity: Sequence[Literal],
                  dtypes: Sequence[np.dtype]) -> None:
    """Write ``State``, ``identity``, ``merge`` and ``exchange``."""
    count = len(dtypes)
    members = " ".join(f"{ctype(d)} s{k};" for k, d in enumerate(dtypes))
    neutral = ", ".join(literal(DTYPES[i.kind], i.value) for i in identity)
    shuffled = ", ".join(f"nbf::shuffle_xor({s}, mask)"
                         for s in state_parts(count, "s"))
    out(f"struct State {{ {members} }};",
        f"static_assert(sizeof(State) == {state_size(dtypes)}, \"as Python has it\");",
        f"NBF_DEVICE State identity() {{ return {{{neutral}}}; }}")
    with out.block("NBF_DEVICE State merge(const State &a, const State &b)"):
        both = (*state_parts(count, "a"), *state_parts(count, "b"))
        return_state(out, merge, dtypes,
                     dict(zip(merge.function.params, both, strict=True)))
    out("NBF_DEVICE State exchange(const State &s, int mask) "
        f"{{ return {{{shuffled}}}; }}")


def return_state(out: Source, typed: Typed, dtypes: Sequence[np.dtype],
                 arguments: Mapping[str, object]) -> None:
    """Write ``return typed(arguments)``, cast to the state's dtypes."""
    lines, results = evaluate(typed, arguments, "v_")
    parts = [cast(compute_dtype(d), s, r)
             for d, s, r in zip(typed.results, dtypes, results, strict=True)]
    out(*lines, f"return {{{', '.join(parts)}}};")
