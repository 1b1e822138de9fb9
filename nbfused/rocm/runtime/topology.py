"""The architectures of devices, as the kernel driver tells them.

`hipDeviceProp_t` has the name, too, but its layout changes between versions of HIP, and
the runtime may be another version than the compiler's headers.
"""

from __future__ import annotations

import os
from pathlib import Path

from ...config import config
from ...errors import DeviceError

__all__ = ["NODES", "chosen", "gfx_name", "gfx_target"]

NODES = Path("/sys/class/kfd/kfd/topology/nodes")


def gfx_name(version: int) -> str:
    """The name of a ``gfx_target_version``: 90010 → ``"gfx90a"``.

    Examples
    --------
    >>> from nbfused.rocm.runtime.topology import gfx_name
    >>> gfx_name(90402), gfx_name(110001)
    ('gfx942', 'gfx1101')
    """
    major, minor, stepping = version // 10000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{stepping:x}"


def gfx_target(place: str, nodes: Path = NODES) -> str:
    """The architecture of the device on a PCI bus, ``"0000:c1:00.0"``.

    Raises
    ------
    DeviceError
        The driver does not say, and nor does ``NBFUSED_ROCM_ARCH``.
    """
    pretended = os.environ.get("HSA_OVERRIDE_GFX_VERSION")  # which the runtime follows
    if pretended:
        major, minor, stepping = map(int, pretended.split("."))
        return gfx_name(major*10000 + minor*100 + stepping)
    found = _targets(nodes)
    target = found.get(_location(place))
    if target is None and len(set(found.values())) == 1:
        target, = set(found.values())
    if target is None and config.rocm_arch is not None:
        target = config.rocm_arch.split(",")[0].strip()
    if target is None:
        raise DeviceError(
            f"the architecture of the device at {place} is not in {nodes}; set "
            "NBFUSED_ROCM_ARCH to it, such as gfx90a")
    return target


def chosen(name: str, arch: str) -> tuple[str, ...]:
    """The architectures that kernels for the device `name`, an `arch`, are for.

    Raises
    ------
    DeviceError
        ``NBFUSED_ROCM_ARCH`` asks for others only, whose kernels do not run on it.
    """
    if config.rocm_arch is None:
        return (arch,)
    archs = tuple(part.strip() for part in config.rocm_arch.split(","))
    if arch not in archs:
        raise DeviceError(
            f"NBFUSED_ROCM_ARCH={config.rocm_arch}, but {name} is {arch}: kernels for "
            f"other architectures do not run there; add {arch}, or unset it")
    return (arch, *(other for other in archs if other != arch))


def _targets(nodes: Path) -> dict[tuple[int, int], str]:
    """The architecture of each GPU, by PCI domain and location."""
    found = {}
    for path in sorted(nodes.glob("*/properties")):
        lines = (line.split() for line in path.read_text().splitlines())
        said = {line[0]: int(line[1]) for line in lines if len(line) == 2}
        version = said.get("gfx_target_version", 0)
        if version:  # processors are nodes, too
            place = said.get("domain", 0), said.get("location_id", -1)
            found[place] = gfx_name(version)
    return found


def _location(place: str) -> tuple[int, int]:
    """Domain and location as the driver counts: bus, device and function in bits."""
    domain, bus, rest = place.split(":")
    slot, _, function = rest.partition(".")
    return int(domain, 16), int(bus, 16) << 8 | int(slot, 16) << 3 | int(function, 16)
