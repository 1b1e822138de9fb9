"""Parameters of tests, of which most are left to ``make variants``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def sampled(values: Iterable[Any], *first: Any) -> list[Any]:
    """The values; all but the first ones are left to ``make variants``.

    Of tests with several parameters, those run at once whose values all do.
    """
    return [v if v in first else pytest.param(v, marks=pytest.mark.variants)
            for v in values]


def sampled_together(values: Iterable[tuple[Any, ...]],
                     *first: tuple[Any, ...]) -> list[Any]:
    """As `sampled`, for several parameters that are chosen together."""
    return [v if v in first else pytest.param(*v, marks=pytest.mark.variants)
            for v in values]
