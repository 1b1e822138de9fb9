"""The exceptions and warnings of nbfused.

Every message names the argument, what was got, what was expected and the way out.
"""

from __future__ import annotations

__all__ = [
    "AllocationError", "BackendNotAvailableError", "BarrierError", "CompileError",
    "DefinitionError", "DeviceError", "GradientRaceError",
    "InplaceModificationError", "KernelTypeError",
    "NbFusedError", "NbFusedPerformanceWarning", "NbFusedWarning",
    "NotDifferentiableError", "OverlapError", "RangeError", "ReadOnlyError",
    "ScalarSyntaxError", "SettingError", "ShapeError", "TapeError",
    "UnsupportedError",
]


class NbFusedError(Exception):
    """Base class of every exception that nbfused raises on its own account."""


class BackendNotAvailableError(NbFusedError, ImportError):
    """A backend was asked for by name and cannot be used; the cause is in the text."""


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
    """The parts that define a kernel: a parameter, a name, an option, do not fit."""


class ShapeError(NbFusedError, ValueError):
    """Shapes, axes or subscripts that do not fit together."""


class RangeError(NbFusedError, ValueError, IndexError, OverflowError):
    """A number outside its range: a label, an index, an integer for its dtype."""


class SettingError(NbFusedError, ValueError):
    """An environment variable, or a field of `config`, that cannot be followed."""


class DeviceError(NbFusedError, ValueError):
    """Arrays on a device that no enabled backend owns, or on several devices."""


class ReadOnlyError(NbFusedError, ValueError):
    """An output array that must not be written to."""


class OverlapError(NbFusedError, ValueError):
    """An output shares memory with an input, or with itself, in an unsafe way."""


class AllocationError(NbFusedError, MemoryError):
    """Memory ran out; on a device also after cached blocks had been freed."""


class ScalarSyntaxError(NbFusedError, SyntaxError):
    """A scalar function uses Python that the scalar language does not have."""


class NotDifferentiableError(NbFusedError, NotImplementedError):
    """A derivative was asked for that does not exist."""


class UnsupportedError(NbFusedError, NotImplementedError):
    """What kernels of this kind do not have; the text says which way leads there."""


class InplaceModificationError(NbFusedError, RuntimeError):
    """An array that the tape had saved was changed before the backward pass."""


class TapeError(NbFusedError, RuntimeError):
    """The graph does not hold what a backward pass was asked for."""


class GradientRaceError(NbFusedError, RuntimeError):
    """Two threads stored to one element that was declared to be stored once."""


class BarrierError(NbFusedError, RuntimeError):
    """Some threads of a block waited at a barrier that others never reached."""


class NbFusedWarning(UserWarning):
    """Base class of the warnings of nbfused."""


class NbFusedPerformanceWarning(NbFusedWarning):
    """The result is right, but something makes it slower than it need be."""
