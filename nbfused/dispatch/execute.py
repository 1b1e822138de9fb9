"""`execute`: run a spec on arrays, and return arrays.

Everything is checked before anything is allocated, and all of it before anything is
written, so that a call that fails has changed nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from ..arrays import check_dtype, describe
from ..arrays.detect import is_lazy
from ..arrays.traced import find_traced
from ..errors import KernelTypeError
from ..specs import Spec, View
from .calls import describe_outputs, run_cached, validate_and_run
from .views import run_view

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["execute"]


def execute(spec: Spec, inputs: Sequence[Any], *,
            out: Sequence[Any | None] | None = None,
            dtypes: Sequence[DTypeLike | None] | None = None,
            names: Sequence[str] | None = None, like: Any = None,
            casting: str = "same_kind") -> tuple[Any, ...]:
    """Run `spec` on arrays and numbers, and return its outputs.

    Parameters
    ----------
    spec
        What to compute.
    inputs
        Arrays of one library on one device, and numbers where the spec takes them: a
        Python number has a weak type (NEP 50), a NumPy scalar its own.
    out
        For each output, an array to store it in, or None to make one.
    dtypes
        For each output, its dtype, or None for what NumPy would give.
    names
        What messages call the inputs.
    like
        An array whose library and device the outputs take where no input is an array.
    casting
        How results may be cast to the dtypes of `out`, as in `numpy.can_cast`.

    Returns
    -------
    tuple of array
        Of the inputs' library, on their device; those in `out` themselves.  New ones
        lie in memory as the inputs do, as in NumPy; views share memory if they can.

    Raises
    ------
    KernelTypeError
        Arrays of several libraries, too few inputs, a dtype without kernels, or an
        output that cannot take the result.
    DeviceError
        Several devices, or one that no enabled backend owns.
    ShapeError
        Shapes that do not fit.
    ReadOnlyError, OverlapError
        An output that must not be written to, or not while its inputs are read.
    AllocationError
        Out of memory, also after cached blocks were freed.
    """
    if like is None and spec.launches:
        made = run_cached(spec, inputs, out, dtypes, casting)  # type: ignore[arg-type]
        if made is not None:
            return tuple(made) if out is None else _placed(out, made)
    traced = find_traced(inputs)
    if traced is not None:
        return traced.run(spec, inputs, out, {
            "dtypes": dtypes, "casting": casting, "names": names or ()})
    if any(map(is_lazy, inputs)):
        return _run_lazy()(spec, inputs, out, dtypes, names)
    asked = None if dtypes is None else tuple(
        [None if dtype is None else check_dtype(dtype, "dtype") for dtype in dtypes])
    if out is not None and asked is not None and len(out) != len(asked):
        raise KernelTypeError(f"{spec.name}: {len(out)} arrays in out, but "
                              f"{len(asked)} dtypes")
    if not spec.launches:
        outs = None if out is None else describe_outputs(out)
        made, library = run_view(cast(View, spec), inputs, outs, asked, names,
                                 casting)
    else:
        made, place = validate_and_run(
            spec, inputs, out, dtypes=asked, names=names, casting=casting,
            like=None if like is None else describe(like, "like"))
        library = place.library
    if out is None:
        return tuple([library.finish(native) for native in made])
    return _placed(out, [native if native is None else library.finish(native)
                         for native in made])


@cache
def _run_lazy() -> Callable[..., tuple[Any, ...]]:
    from .dask_arrays import run

    return run


def _placed(out: Sequence[Any | None], made: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([native if given is None else given
                  for native, given in zip(made, out, strict=True)])
