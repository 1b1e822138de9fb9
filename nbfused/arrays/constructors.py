"""`array`, `empty`, `zeros` and `full`, which start a device that they name.

What fills an array, and what calls will need, is imported while a GPU's driver starts:
that takes as long.  So this module needs nothing but the backends' names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..registry.backends import backend_for
from ..registry.operations import OPS
from ..support.forks import LOCK
from .devices import Device, canonical_device

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from ..backend import Backend

__all__ = ["array", "empty", "full", "start_backend", "zeros"]

Shape = int | Sequence[int]


def array(x: Any, dtype: DTypeLike | None = None, device: Device | None = None) -> Any:
    """Copy `x` into a new array on a device.

    Parameters
    ----------
    x
        Numbers, nested lists, or an array of any library.
    dtype
        By default that of `x`, as `numpy.array` decides; ``"bfloat16"`` is understood.
    device
        ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"rocm"``, or a `torch.device`.  By
        default where `x` is, and for data of the host the default device of the first
        enabled backend, which is ``"cpu"`` unless ``NBFUSED_BACKEND`` lists another one
        first.

    Returns
    -------
    array
        A NumPy array on ``"cpu"``; on a GPU a CuPy array where the program has imported
        CuPy, and otherwise a `DeviceArray`.

    Raises
    ------
    DeviceError
        If no enabled backend owns the device.
    KernelTypeError
        If there are no kernels for the dtype.
    RangeError, ShapeError
        If a number does not fit the dtype, or nested lists are ragged.
    AllocationError
        If there is no room for it.

    Examples
    --------
    >>> import nbfused as nf
    >>> nf.array([1, 2, 3], dtype="float32")
    array([1., 2., 3.], dtype=float32)
    """
    return _creation(device).array(x, dtype, device)


def empty(shape: Shape, dtype: DTypeLike = "float64",
          device: Device | None = None) -> Any:
    """Make an array without setting its elements.

    Parameters
    ----------
    shape : int or sequence of int
        Vectors as elements are a trailing dimension, as in NumPy: ``empty((4, 4),
        ("float32", 3))`` has shape (4, 4, 3).
    dtype, device
        As for `array`; by default float64, on the default device.

    Returns
    -------
    array
        C-contiguous, of the kind that `array` gives.

    Raises
    ------
    DeviceError, KernelTypeError
        As `array`.
    ShapeError
        An extent is negative, or there are too many elements.

    Examples
    --------
    >>> import nbfused as nf
    >>> nf.empty((2, 3), "float32").shape
    (2, 3)
    """
    return _creation(device).empty(shape, dtype, device)


def zeros(shape: Shape, dtype: DTypeLike = "float64",
          device: Device | None = None) -> Any:
    """Make an array of zeros; parameters and errors as for `empty`.

    Examples
    --------
    >>> import nbfused as nf
    >>> nf.zeros(3)
    array([0., 0., 0.])
    """
    return _creation(device).full(shape, 0, dtype, device)


def full(shape: Shape, value: Any, dtype: DTypeLike = "float64",
         device: Device | None = None) -> Any:
    """Make an array with every element `value`; other parameters as for `empty`.

    Raises
    ------
    RangeError
        The dtype does not hold `value`.

    Examples
    --------
    >>> import nbfused as nf
    >>> nf.full((2,), 7, "int8")
    array([7, 7], dtype=int8)
    """
    return _creation(device).full(shape, value, dtype, device)


def _creation(device: Device | None) -> Any:
    """Import the module `creation`, after starting the device if one is named."""
    if device is not None:
        start_backend(canonical_device(device))
    return _import_creation()


@cache
def _import_creation() -> Any:
    with LOCK:
        return import_module(".creation", __package__)


def start_backend(place: str) -> Backend:
    """Start the backend that owns a device; import what calls need meanwhile."""
    backend = backend_for(place, "device")
    start: Callable[..., None] | None = getattr(backend, "start", None)
    if start is not None:
        start(place, _import_for_calls)
    return backend


def _import_for_calls() -> None:
    _import_creation()
    OPS.fill()
