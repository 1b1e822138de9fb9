"""The exceptions and warnings of nbfused.

Every message names the argument, what was got, what was expected and the way out.
"""

from __future__ import annotations

__all__ = [
    "AllocationError", "BackendNotAvailableError", "BarrierError", "CompileError",
    "DefinitionError", "DeviceError", "DistributedError", "GradientRaceError",
    "InplaceModificationError", "KernelTypeError",
    "NbFusedError", "NbFusedPerformanceWarning", "NbFusedWarning",
    "NotDifferentiableError", "OverlapError", "RangeError", "ReadOnlyError",
    "ScalarSyntaxError", "SettingError", "ShapeError", "TapeError",
    "UnknownOperationError", "UnsupportedError",
]


class NbFusedError(Exception):
    """Base class of the exceptions that nbfused raises."""


class BackendNotAvailableError(NbFusedError, ImportError):
    """A requested backend cannot be used; the text says why."""


class CompileError(NbFusedError, RuntimeError):
    """A compiler refused a generated kernel.

    Attributes
    ----------
    source : str
        The text that was compiled.
    log : str
        What the compiler said.
    command : str
        How it was called, where it is a program of its own.
    """

    def __init__(self, message: str, *, source: str = "", log: str = "",
                 command: str = "") -> None:
        super().__init__(message)
        self.source = source
        self.log = log
        self.command = command


class KernelTypeError(NbFusedError, TypeError):
    """An argument has a type or dtype that the operation does not take."""


class DefinitionError(NbFusedError, ValueError):
    """A kernel's definition is inconsistent: parameters, names or options."""


class ShapeError(NbFusedError, ValueError):
    """Shapes, axes or subscripts do not fit together."""


class RangeError(NbFusedError, ValueError, IndexError, OverflowError):
    """A number is out of range: a label, an index, an integer for its dtype."""


class SettingError(NbFusedError, ValueError):
    """An environment variable, or a field of `config`, has an invalid value."""


class DeviceError(NbFusedError, ValueError):
    """Arrays lie on several devices, or on one that no enabled backend owns."""


class ReadOnlyError(NbFusedError, ValueError):
    """An output array must not be written to."""


class OverlapError(NbFusedError, ValueError):
    """An output shares memory with an input, or with itself, in an unsafe way."""


class AllocationError(NbFusedError, MemoryError):
    """Memory ran out, on a device even after cached blocks were freed."""


class ScalarSyntaxError(NbFusedError, SyntaxError):
    """A scalar function uses Python that the scalar language does not have."""

    #: The results of the function hold a function: its caller may write it out instead.
    _holds_function: bool = False


class NotDifferentiableError(NbFusedError, NotImplementedError):
    """A requested derivative does not exist."""


class UnsupportedError(NbFusedError, NotImplementedError):
    """Kernels of this kind lack a feature; the text names an alternative."""


class UnknownOperationError(NbFusedError, LookupError):
    """A program of PyTorch calls an operation that this process does not know."""


class InplaceModificationError(NbFusedError, RuntimeError):
    """A saved array was changed before the backward pass."""


class TapeError(NbFusedError, RuntimeError):
    """The graph does not hold what a backward pass needs."""


class DistributedError(NbFusedError, RuntimeError):
    """Processes do not make the same calls, or one of them does not answer."""


class GradientRaceError(NbFusedError, RuntimeError):
    """Two threads stored to one element that was declared to be stored once."""


class BarrierError(NbFusedError, RuntimeError):
    """Some threads of a block waited at a barrier that others never reached."""


class NbFusedWarning(UserWarning):
    """Base class of the warnings of nbfused."""


class NbFusedPerformanceWarning(NbFusedWarning):
    """The result is right, but something makes it slower than it need be."""
