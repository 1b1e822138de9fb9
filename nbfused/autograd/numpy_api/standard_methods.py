"""Methods that the array API standard asks of arrays, beside NumPy's."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ...arrays.constructors import array
from ...arrays.devices import canonical_device
from ...arrays.operators import array_namespace
from ...errors import KernelTypeError, TapeError
from ..graph import GraphArray
from .in_place import assign

__all__ = ["StandardMethods"]


class StandardMethods(GraphArray):
    """The namespace, DLPack, devices and assignment to parts."""

    __slots__ = ()

    device: Any

    def __array_namespace__(self, /, *, api_version: str | None = None) -> ModuleType:
        """The module `nbfused.array_api`."""
        return array_namespace(api_version)

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        """The array on another device; itself where it is on that one.

        Raises
        ------
        TapeError
            It requires grad, which does not cross devices.
        """
        if stream is not None:
            raise KernelTypeError("to_device: 'stream' is not supported, got "
                                  f"{stream!r}; leave it out")
        if canonical_device(device) == self.device:
            return self
        if self.requires_grad:
            raise TapeError("to_device: this Variable requires grad, and gradients do "
                            "not cross devices; use detach() first")
        return type(self).at(array(self._value, device=device), None)

    def __dlpack_device__(self) -> tuple[int, int]:
        found: tuple[int, int] = self._exported().__dlpack_device__()
        return found

    def __dlpack__(self, *, stream: Any = None,
                   max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None,
                   copy: bool | None = None) -> Any:
        """Export the array through DLPack; refused where a gradient would be lost."""
        if self.requires_grad:
            raise BufferError("this Variable requires grad, which DLPack would lose; "
                              "use detach() first")
        options = {"stream": stream, "max_version": max_version,
                   "dl_device": dl_device, "copy": copy}
        # Arrays of older libraries take fewer options than the protocol has now.
        return self._exported().__dlpack__(**{
            name: value for name, value in options.items() if value is not None})

    def _exported(self) -> Any:
        if self._value is None:
            raise BufferError("this Variable stands for an array that is not known "
                              "while a function is traced, or runs on samples; export "
                              "it outside")
        return self._value

    def __complex__(self) -> complex:
        return complex(self.item())  # type: ignore[attr-defined]

    def __setitem__(self, index: Any, value: Any) -> None:
        """Store into a part of the array, or record a new array with that part.

        Raises
        ------
        TapeError
            It is a leaf that requires grad, or has views that the tape knows.
        KernelTypeError
            `value` is of another kind.
        """
        assign(self, index, value)
