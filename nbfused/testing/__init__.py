"""Checks for ops, backends and gradients: public, for authors of plugins too."""

from .conformance import Check, assert_matches_reference, checks, run
from .gradcheck import GradcheckError, gradcheck, gradients

__all__ = [
    "Check", "GradcheckError", "assert_matches_reference", "checks", "gradcheck",
    "gradients", "run",
]
