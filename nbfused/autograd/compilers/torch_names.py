"""The namespace ``torch.ops.nbfused``, which finds ops by their names."""

from __future__ import annotations

import re
import sys
from functools import cache
from typing import Any

from ...errors import UnknownOperationError, UnsupportedError
from .identity import load

__all__ = ["MAKING", "NAMESPACE", "install", "library"]

NAMESPACE = "nbfused"

#: How names of ops end.
_OURS = re.compile(r"_[0-9a-f]{16}$|_\d+_[0-9a-f]{8}$")

#: Names of ops that are being defined: PyTorch asks whether there are others.
MAKING: set[str] = set()


@cache
def library() -> Any:
    """The library that our ops are defined in."""
    import torch

    missing = [name for name in ("register_fake", "register_vmap")
               if not hasattr(torch.library, name)]
    if missing:
        raise UnsupportedError(
            f"PyTorch {torch.__version__} has no torch.library.{missing[0]}, by which "
            "operations are called inside of its compiler and torch.func; install "
            "PyTorch 2.5 or later, or call them outside")
    return torch.library.Library(NAMESPACE, "FRAGMENT")


def install() -> None:
    """Let ``torch.ops.nbfused`` find the ops that other processes have made.

    PyTorch defines an op where it is first called.  A program that `torch.export` has
    saved, or that a compiler has cached, names ops before any call.
    """
    torch = sys.modules["torch"]
    known = torch.ops.__dict__.get(NAMESPACE)
    if type(known) is not _namespace():
        torch.ops.__dict__[NAMESPACE] = _namespace()(NAMESPACE)


@cache
def _namespace() -> Any:
    from torch._ops import _OpNamespace

    class Namespace(_OpNamespace):
        """The ops of this process, and those on disk."""

        __module__ = "torch.ops"

        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                if name in MAKING or not _OURS.search(name):
                    raise
            part = load(name)
            if part is None:
                raise UnknownOperationError(
                    f"torch.ops.nbfused.{name}: the program calls an operation of "
                    "nbfused that is not known in this process: it was made in "
                    "another one, whose cache this one does not share; set "
                    "NBFUSED_CACHE_DIR to that cache (nf.cache.folder() says where it "
                    "is), or import what defines the operation and export the program "
                    "here")
            from .torch_ops import define

            define(part)
            return super().__getattr__(name)

    return Namespace
