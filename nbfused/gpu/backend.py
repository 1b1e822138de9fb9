"""`GpuBackend`: the part of a backend that only needs its devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ..version import PROTOCOL_VERSION

if TYPE_CHECKING:
    import numpy as np

    from ..arrays import DeviceArray

__all__ = ["DeviceModule", "GpuBackend"]


class DeviceModule(Protocol):
    """A module that finds devices."""

    def device(self, ordinal: int) -> Any:
        """The device with this number."""

    def device_count(self) -> int:
        """Number of devices that are shown."""

    def used_devices(self) -> tuple[Any, ...]:
        """The devices that have been asked for."""


class GpuBackend:
    """Owns arrays in the memory of one maker's devices.

    A backend adds `name`, `available` and `build`.
    """

    name: str
    protocol = PROTOCOL_VERSION

    def _module(self) -> DeviceModule:
        """Imported when it is needed: it starts the driver."""
        raise NotImplementedError

    def _device(self, name: str) -> Any:
        from ..arrays.devices import ordinal

        return self._module().device(ordinal(name))

    def devices(self) -> tuple[str, ...]:
        """The devices that the driver shows; starts it."""
        return tuple(f"{self.name}:{k}" for k in range(self._module().device_count()))

    def owns(self, device: str) -> bool:
        """Whether `device` is one of this maker's, or stands for one."""
        return device.partition(":")[0] == self.name

    def empty(self, shape: tuple[int, ...], dtype: np.dtype,
              device: str) -> DeviceArray:
        """An array of our own, not initialised.

        Raises
        ------
        AllocationError
            Out of memory, also after the cached memory was freed.
        DeviceError
            No such device.
        """
        from .arrays import empty

        return empty(self._device(device), shape, dtype)

    def from_host(self, array: np.ndarray, device: str) -> DeviceArray:
        """A copy on the device."""
        from .arrays import from_host

        return from_host(self._device(device), array)

    def to_host(self, array: DeviceArray) -> np.ndarray:
        """A copy on the host, once everything that writes to it is done."""
        from .arrays import to_host

        return to_host(self._device(array.device), array)

    def synchronize(self) -> None:
        """Wait for everything launched on every device used so far."""
        for device in self._module().used_devices():
            device.synchronize()
