"""Names of devices: ``"cpu"``, ``"cuda:0"``."""

from __future__ import annotations

import re
import sys
from functools import cache
from typing import Any, Protocol, TypeAlias

from ..errors import DeviceError

__all__ = ["Device", "TorchDevice", "canonical_device", "device_kind", "ordinal",
           "torch_device"]


class TorchDevice(Protocol):
    """A `torch.device`, for types: nothing here imports PyTorch."""

    @property
    def type(self) -> str:
        """``"cpu"``, ``"cuda"``."""

    @property
    def index(self) -> int | None:
        """The number of the device, if it is said."""


#: What names a device: ``"cpu"``, ``"cuda"``, ``"rocm:1"``.
Device: TypeAlias = str | TorchDevice

_NUMBER = re.compile("[0-9]{1,9}")


def canonical_device(device: Device) -> str:
    """Normalise a device's name, or a `torch.device`: ``"cuda"`` → ``"cuda:0"``.

    The host is one device: ``"cpu"`` and ``"cpu:0"`` are the same, ``"cpu:1"`` is none.

    Raises
    ------
    DeviceError
        If it is no name of a device.

    Examples
    --------
    >>> from nbfused.arrays import canonical_device
    >>> canonical_device("cuda"), canonical_device("cpu")
    ('cuda:0', 'cpu')
    """
    if type(device).__module__ == "torch":
        device = torch_device(device)
    if isinstance(device, str):
        kind, colon, number = device.partition(":")
        if kind.isidentifier() and (_NUMBER.fullmatch(number) or not colon):
            ordinal = int(number or 0)
            if kind != "cpu":
                return f"{kind}:{ordinal}"
            if ordinal == 0:
                return "cpu"
    raise DeviceError(
        f"device: {device!r} names no device; expected 'cpu', 'cuda' or 'rocm:0'")


def torch_device(device: Any) -> str:
    """The name of a `torch.device`, whose ``cuda`` is AMD's in builds for HIP."""
    if device.type != "cuda":
        return str(device.type)
    kind = "cuda" if sys.modules["torch"].version.hip is None else "rocm"
    return f"{kind}:{device.index or 0}"


def device_kind(device: str) -> str:
    """The kind of a device: ``"cuda:0"`` → ``"cuda"``."""
    return device.partition(":")[0]


@cache
def ordinal(device: str) -> int:
    """The number of a device: ``"cuda:1"`` → 1; 0 for ``"cpu"``."""
    return int(device.partition(":")[2] or 0)
