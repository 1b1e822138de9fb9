"""The libraries that are compared: each knows the families in its own words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
from ml_dtypes import bfloat16

from .workloads import Workload, cotangent_of

__all__ = ["LIBRARIES", "Library", "available"]

Call = Callable[[], Any]


class Library(Protocol):
    """One column of the table."""

    name: str

    def prepare(self, work: Workload, arrays: Sequence[np.ndarray],
                device: str) -> Call | None:
        """A call that does `work` on its own copies; None if it cannot."""

    def results(self, outcome: Any) -> list[np.ndarray]:
        """What a call returned, on the host, as float64."""


class Nbfused:
    """Ours: on PyTorch's tensors on a GPU, on NumPy's arrays on the cpu."""

    name = "nbfused"

    def prepare(self, work: Workload, arrays: Sequence[np.ndarray],
                device: str) -> Call | None:
        """See `Library`."""
        import nbfused as nf

        from . import of_nbfused

        function = partial(of_nbfused.FAMILIES[work.family], **work.options)
        given = _placed(arrays, work.dtype, device)
        if not work.both:
            return partial(function, *given)
        (cotangent,) = _placed([cotangent_of(function(*given).shape)], work.dtype,
                               device)

        def both() -> list[Any]:
            variables = [nf.Variable(a, requires_grad=_floating(a)) for a in given]
            result = function(*variables)
            result.backward(cotangent) if result.shape else result.backward()
            return [v.grad for v in variables if v.requires_grad]

        return both

    def results(self, outcome: Any) -> list[np.ndarray]:
        """See `Library`."""
        return [_host(x) for x in _several(outcome)]


class Torch:
    """PyTorch: eager, or compiled whole."""

    def __init__(self, name: str, compiled: bool) -> None:
        self.name, self.compiled = name, compiled

    def prepare(self, work: Workload, arrays: Sequence[np.ndarray],
                device: str) -> Call | None:
        """See `Library`."""
        import torch

        from . import of_torch

        function: Any = partial(of_torch.FAMILIES[work.family], **work.options)
        if self.compiled:
            torch._dynamo.reset()
            function = torch.compile(function)
        given = of_torch.tensors(arrays, work.dtype, device)
        if not work.both:
            return torch.no_grad()(partial(function, *given))
        return of_torch.both(function, given)

    def results(self, outcome: Any) -> list[np.ndarray]:
        """See `Library`."""
        return [_host(x) for x in _several(outcome)]


class Arrays:
    """A library of arrays without gradients: NumPy, numexpr, CuPy."""

    def __init__(self, name: str, devices: str) -> None:
        self.name, self.devices = name, devices

    def prepare(self, work: Workload, arrays: Sequence[np.ndarray],
                device: str) -> Call | None:
        """See `Library`."""
        from . import of_arrays

        families = of_arrays.families(self.name)
        unable = work.both or work.family not in families or work.dtype == "bfloat16"
        if unable or not device.startswith(self.devices):
            return None
        given = of_arrays.put(self.name, arrays, work.dtype)
        return partial(families[work.family], *given, **work.options)

    def results(self, outcome: Any) -> list[np.ndarray]:
        """See `Library`."""
        return [_host(x) for x in _several(outcome)]


class Jax:
    """JAX, jitted; on the cpu only: its streams are not ours to time."""

    name = "jax"

    def prepare(self, work: Workload, arrays: Sequence[np.ndarray],
                device: str) -> Call | None:
        """See `Library`."""
        from . import of_jax

        return of_jax.prepare(work, arrays) if device == "cpu" else None

    def results(self, outcome: Any) -> list[np.ndarray]:
        """See `Library`."""
        return [np.asarray(x, np.float64) for x in _several(outcome)]


def _placed(arrays: Sequence[np.ndarray], dtype: str, device: str) -> list[Any]:
    if device == "cpu":
        kind = bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
        return [a.astype(kind) if a.dtype.kind == "f" else a for a in arrays]
    from .of_torch import tensors

    return tensors(arrays, dtype, device)


def _floating(x: Any) -> bool:
    return x.dtype.kind not in "biu" if isinstance(x, np.ndarray) \
        else x.is_floating_point()


def _several(outcome: Any) -> Sequence[Any]:
    return outcome if isinstance(outcome, (list, tuple)) else [outcome]


def _host(x: Any) -> np.ndarray:
    if hasattr(x, "detach"):
        return np.asarray(x.detach().double().cpu().numpy())
    if hasattr(x, "get"):
        x = x.get()
    return np.asarray(x, np.float64)


LIBRARIES: tuple[tuple[str, Library], ...] = (
    ("nbfused", Nbfused()), ("torch", Torch("torch", False)),
    ("torch", Torch("torch.compile", True)), ("jax", Jax()),
    ("numpy", Arrays("numpy", "cpu")), ("numexpr", Arrays("numexpr", "cpu")),
    ("cupy", Arrays("cupy", "cuda")),
)


def available(wanted: Sequence[str] = ()) -> list[Library]:
    """Those that are installed; ours is always the first."""
    return [library for package, library in LIBRARIES if find_spec(package) is not None
            and (not wanted or library.name in ("nbfused", *wanted))]
