"""Direct calls: functions that repeat a call of a spec for arguments of given types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, cast

import numpy as np

from ..specs import Spec, View
from .callers import USUAL, Caller
from .views import direct_view

__all__ = ["direct_call"]

Dtypes = tuple[np.dtype | None, ...]


def direct_call(spec: Spec, inputs: Sequence[Any], outs: Sequence[Any] | None,
                defaults: tuple[Any, ...] = (), dtypes: Dtypes | None = None,
                ) -> Callable[..., Any] | None:
    """The cached direct caller of `spec` for arguments of these types, or None.

    Parameters
    ----------
    defaults
        What it takes for the last inputs where they are left out.
    dtypes
        Of the outputs, as for `execute`.

    Returns
    -------
    callable or None
        ``direct(*outs, *inputs)``: the results that were made, None in place of those
        that were given; None where nothing is prepared for such arguments, or they need
        a closer look: `execute` has to be asked then.
    """
    if not spec.launches:
        plain = outs is None and dtypes is None and len(inputs) == 1
        return direct_view(cast(View, spec), type(inputs[0])) if plain else None
    callers = spec.__dict__.get("_callers", {})
    caller: Caller | None = callers.get((*map(type, inputs), None,
                                         *map(type, outs or ())))
    if caller is None:
        return None
    known = caller.direct
    assert isinstance(known, FunctionType)
    made = FunctionType(known.__code__, known.__globals__, known.__name__, defaults)
    made.__kwdefaults__ = {"asked": (dtypes, *USUAL[1:]), "last": [(None, None)]}
    return made
