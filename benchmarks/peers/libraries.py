"""The compared libraries, each with its implementation of the workloads' families.

``words`` is a folder without ``__init__.py``: asv imports every module that it finds,
and these need packages that may not be there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np

from .inputs import copies, cotangent_of
from .workload import Workload

__all__ = ["LIBRARIES", "Library", "available"]

_log = logging.getLogger(__name__)

Call = Callable[[], Any]


class Library(Protocol):
    """A library: one column of the table."""

    name: str
    #: Its kernels run on streams of its own, where no events of ours can be.
    own_streams: bool
    #: Its kernels take long to compile, and are kept on disk: see `ahead`.
    slow: bool

    def prepare(self, work: Workload, arrays: Sequence[Any], device: str,
                ) -> Call | None:
        """A call that does `work` on `arrays`; None if it cannot."""


class Nbfused:
    """nbfused, on PyTorch tensors on a GPU and NumPy arrays on the cpu."""

    name = "nbfused"
    own_streams = False
    slow = True

    def prepare(self, work: Workload, arrays: Sequence[Any], device: str,
                ) -> Call | None:
        """A call that does `work` on `arrays`."""
        import nbfused as nf

        from .words import of_nbfused

        function = partial(of_nbfused.FAMILIES[work.family],
                           **of_nbfused.options(work))
        if not work.both:
            return partial(function, *arrays)
        cotangent = cotangent_of(function(*arrays).shape, work.storage, device)

        def both() -> list[Any]:
            variables = [nf.Variable(a, requires_grad=_floating(a)) for a in arrays]
            result = function(*variables)
            result.backward(cotangent) if result.shape else result.backward()
            return [v.grad for v in variables if v.requires_grad]

        return both


class Torch:
    """PyTorch: eager, or compiled whole."""

    own_streams = False

    def __init__(self, name: str, compiled: bool) -> None:
        self.name, self.slow = name, compiled

    def prepare(self, work: Workload, arrays: Sequence[Any], device: str,
                ) -> Call | None:
        """A call that does `work` on `arrays`."""
        import torch

        from .words import of_torch

        families = of_torch.COMPILED if self.slow else of_torch.FAMILIES
        function: Any = partial(families[work.family], **work.options)
        if self.slow:
            torch._dynamo.reset()
            function = torch.compile(function, dynamic=False)
        return of_torch.called(function, work, of_torch.tensors(arrays))


class OfTensors:
    """Kernel libraries for PyTorch tensors: Triton, liger, quack, nvmath.

    The module ``of_<name>`` has the functions by family; one returns None, or is not
    there, where the library has nothing for the workload.
    """

    own_streams = False
    slow = False

    def __init__(self, name: str) -> None:
        self.name = name

    def prepare(self, work: Workload, arrays: Sequence[Any], device: str,
                ) -> Call | None:
        """A call that does `work` on `arrays`."""
        from .words import of_torch

        words = self.words()
        make = words.FAMILIES.get(work.family)
        function = make(work, arrays) if make else None
        if work.family in getattr(words, "OVERWRITES", ()):
            arrays = copies(arrays)
        return function and of_torch.called(function, work, arrays)

    def words(self) -> Any:
        """The module with the library's functions."""
        return import_module(f"{__package__}.words.of_{self.name}")


class Arrays:
    """Array libraries without gradients: NumPy, numexpr, CuPy."""

    own_streams = False
    slow = False

    def __init__(self, name: str, devices: str) -> None:
        self.name, self.devices = name, devices

    def prepare(self, work: Workload, arrays: Sequence[Any], device: str,
                ) -> Call | None:
        """A call that does `work` on `arrays`."""
        from .words import of_arrays

        if work.both or work.dtype in ("bfloat16", "tfloat32"):
            return None
        families = of_arrays.families(self.name)
        if work.family not in families:
            return None
        given = of_arrays.views(self.name, arrays)
        return partial(families[work.family], *given, **work.options)


class Jax:
    """JAX, with jit."""

    name = "jax"
    own_streams = True
    slow = False

    def prepare(self, work: Workload, arrays: Sequence[Any], device: str,
                ) -> Call | None:
        """A call that does `work` on `arrays`."""
        from .words import of_jax

        return of_jax.prepare(work, arrays, device)


def _floating(x: Any) -> bool:
    return x.dtype.kind not in "biu" if isinstance(x, np.ndarray) \
        else x.is_floating_point()


#: The package that each needs, ours first.
LIBRARIES: tuple[tuple[str, Library], ...] = (
    ("nbfused", Nbfused()), ("torch", Torch("torch", False)),
    ("torch", Torch("torch.compile", True)), ("triton", OfTensors("triton")),
    ("liger_kernel", OfTensors("liger")), ("quack", OfTensors("quack")),
    ("nvmath", OfTensors("nvmath")), ("jax", Jax()),
    ("numpy", Arrays("numpy", "cpu")), ("numexpr", Arrays("numexpr", "cpu")),
    ("cupy", Arrays("cupy", "cuda")),
)


def available(device: str, wanted: Sequence[str] = ()) -> list[Library]:
    """Installed libraries that support the device; ours is the first."""
    return [library for package, library in LIBRARIES if find_spec(package) is not None
            and (not wanted or library.name in ("nbfused", *wanted))
            and _usable(library, device)]


def _usable(library: Library, device: str) -> bool:
    if isinstance(library, Arrays):
        return device.startswith(library.devices)
    if not isinstance(library, OfTensors):
        return True
    try:
        return device.startswith("cuda") and bool(library.words())
    except Exception as error:  # installed, but not whole
        _log.warning("%s is left out: %s", library.name, error)
        return False
