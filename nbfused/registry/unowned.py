"""Texts of the errors for devices that no backend owns."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["not_allowed", "not_enabled", "not_selected"]

#: Whose devices a built-in backend's are.
_MAKERS = {"cuda": " (NVIDIA)", "rocm": " (AMD)"}


def not_enabled(device: str, name: str, causes: Sequence[str],
                known: Sequence[str]) -> str:
    """No usable backend owns a device: why not, or which ones there are.

    Parameters
    ----------
    name
        The argument that is there; ``"device"`` for the argument that names it.
    causes
        What keeps those away that might.
    known
        The names of all backends.
    """
    kind = device.partition(":")[0]
    given = name == "device"
    if causes:
        where = f"device: no enabled backend owns {device!r}" if given else \
            f"{name} is on {device}, which no enabled backend owns"
        way_out = "Leave 'device' out for the host" if given else "Copy it to the host"
        return f"{where}: {'; '.join(causes)}. {way_out}, or see nbfused.backends()"
    *names, last = [f"{each!r}{_MAKERS.get(each, '')}" for each in known]
    where = f"device: no backend has devices called {kind!r}" if given else \
        f"{name} is on {device}, which no enabled backend owns"
    return (f"{where}; expected a device of {', '.join(names)} or {last}, such as "
            f"{_example(known)!r}; see nbfused.backends()")


def _example(known: Sequence[str]) -> str:
    return "cuda:0" if "cuda" in known else known[-1]


def not_selected(device: str, name: str, selected: Sequence[str], first: str) -> str:
    """A device is not of the backends that ``NBFUSED_BACKEND`` selects.

    Parameters
    ----------
    first
        A device that is.
    """
    chosen = ",".join(selected)
    kind = device.partition(":")[0]
    return (f"{_place(device, name)}, but only {chosen} is enabled "
            f"(NBFUSED_BACKEND={chosen}); {_move(name, first)}, or set "
            f"NBFUSED_BACKEND={chosen},{kind}")


def not_allowed(device: str, name: str, allowed: Sequence[str], first: str) -> str:
    """A device is not of the backends of the ``use_backend`` around the caller."""
    return (f"{_place(device, name)}, but nbfused.use_backend allows only "
            f"{', '.join(allowed)}; {_move(name, first)} or leave the `with` block")


def _place(device: str, name: str) -> str:
    return f"device={device!r}" if name == "device" else f"{name} is on {device}"


def _move(name: str, first: str) -> str:
    return f"write device={first!r}" if name == "device" else \
        f"move it with nbfused.array(x, device={first!r})"
