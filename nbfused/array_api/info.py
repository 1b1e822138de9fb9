"""The namespace's description of itself: devices, dtypes, abilities."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..registry.backends import backends, default_device
from .dtypes import _KINDS, DEFAULTS, DTYPES, isdtype

__all__ = ["Info"]


class Info:
    """The answers of ``__array_namespace_info__()``."""

    def capabilities(self) -> dict[str, Any]:
        """Abilities by name: masks as indices, shapes that depend on elements."""
        return {"boolean indexing": True, "data-dependent shapes": True,
                "max dimensions": _MOST_DIMENSIONS}

    def default_device(self) -> str:
        """The device on which `asarray` puts numbers."""
        return default_device()

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype]:
        """The dtypes that numbers get by themselves."""
        return dict(DEFAULTS)

    def devices(self) -> list[str]:
        """The devices of all enabled backends."""
        return [device for found in backends().values() if found.enabled
                for device in found.devices]

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype]:
        """The dtypes of the standard by name, of a kind or of several."""
        return {name: DTYPES[name] for names in _KINDS.values() for name in names
                if kind is None or isdtype(DTYPES[name], kind)}


#: What NumPy's arrays can have.
_MOST_DIMENSIONS = 64
