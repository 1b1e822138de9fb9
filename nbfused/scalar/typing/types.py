"""From a polymorphic scalar function to one in which every value has a dtype."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ...support.records import record
from ..ir.build import inline
from ..ir.clean import clean
from ..ir.nodes import Function, defined
from .lowering import Lowering
from .promotion import Type, Weak, compute_dtype, promote, promoted_dtype
from .vanishing import fold_vanishing

__all__ = [
    "Type", "Typed", "Weak", "compute_dtype", "promote", "promoted_dtype",
    "result_types", "specialize",
]


@record(frozen=True, eq=False)
class Typed:
    """A scalar function whose every value has a dtype.

    Attributes
    ----------
    function
        Base operations only; the operands of each have its computing dtype, and
        literals are ``Literal(dtype name, text)``.
    dtypes
        The dtype that each name is computed in: never a 16-bit float.  For a raw
        array, the dtype of its elements as they are stored.
    results
        Logical dtypes of the results; float16 and bfloat16 are computed in float32
        and rounded when stored.
    """

    function: Function
    dtypes: dict[str, np.dtype]
    results: tuple[np.dtype, ...]


@lru_cache(maxsize=4096)
def specialize(function: Function, params: tuple[Type, ...]) -> Typed:
    """Bind the parameters' types, expand composites, insert casts, type literals.

    Python numbers take part as NEP 50 has it.  Those that stay Python numbers are
    computed in int64 and in the common floating dtype of the parameters (float64 if
    there is none), so that no float64 appears beside float32; in float64 if one of them
    meets a float64 that is computed, as an int32 times 0.1 is.

    Parameters
    ----------
    function : Function
        Any scalar function.
    params : tuple of Type
        A dtype or `Weak` for each parameter; for a raw array, its dtype.

    Raises
    ------
    KernelTypeError
        An operation does not take operands of these types, or an integer literal
        does not fit the dtype it meets.
    """
    function = inline(function)
    lowering = Lowering(function, params)
    results = lowering.run()
    while not lowering.settled():
        lowering = Lowering(function, params, lowering.found(),
                            lowering.wide or lowering.rounded)
        results = lowering.run()
    lowered = fold_vanishing(clean(lowering.function()), lowering.dtypes)
    kept = {*lowered.params, *defined(lowered.body)}
    dtypes = {n: d for n, d in lowering.dtypes.items() if n in kept}
    return Typed(lowered, dtypes, results)


def result_types(function: Function, params: tuple[Type, ...]) -> tuple[np.dtype, ...]:
    """The dtypes of the results of `function` on parameters of types `params`."""
    return specialize(function, params).results
