"""Readable text of the launches of a fused function."""

from __future__ import annotations

from ....op.source import source as text
from ....specs.fusion.graph import Launch

__all__ = ["source"]


def source(launch: Launch, kind: str = "primal") -> str:
    """The scalar functions of a launch, each parameter as float32."""
    title = f"# {type(launch.spec).__name__}"
    return "\n".join([title, *(text(f, kind) for f in launch.spec.functions)])
