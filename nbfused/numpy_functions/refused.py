"""NumPy's functions that have no meaning for a Variable, with the way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ..autograd.numpy_api.refusals import no_operation
from .base import implements

__all__ = ["REFUSED"]

_TEXT = "it writes text or a file; pass x.to_numpy()"
_DATES = "nbfused has no dtype of dates"
_MEMORY = "a Variable is not an array in memory; pass x.data"

#: NumPy's name -> why not, and what to do.
REFUSED: dict[str, str] = {
    **dict.fromkeys(("array2string", "array_repr", "array_str", "save", "savetxt",
                     "savez", "savez_compressed"), _TEXT),
    **dict.fromkeys(("busday_count", "busday_offset", "is_busday", "isnat",
                     "datetime_as_string"), _DATES),
    **dict.fromkeys(("may_share_memory", "shares_memory"), _MEMORY),
    "polydiv": "the length of its results depends on elements; pass x.to_numpy()",
    "roots": "the number of its results depends on elements; write "
             "numpy.linalg.eigvals of the companion matrix",
    "polyfit": "write numpy.linalg.lstsq(numpy.vander(x, degree + 1), y)",
    "einsum_path": "it computes nothing; pass arrays of the same shapes",
}


def _refusal(name: str, why: str) -> Callable[..., NoReturn]:
    def call(*args: Any, **kwargs: Any) -> NoReturn:
        raise no_operation(f"numpy.{name} has no operation for a Variable: {why}")

    call.__name__ = call.__qualname__ = name.replace(".", "_")
    return implements(name)(call)


for _name, _why in REFUSED.items():
    _refusal(_name, _why)
