"""What every refusal of bad input must be: a named exception that helps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from nbfused import errors


@contextmanager
def refused(error: type[Exception], *words: str) -> Iterator[None]:
    """Expect exactly `error`, one of nbfused's own, with all `words` in its text.

    Words: the argument, what was got, what was expected, the way out.
    """
    assert error.__name__ in errors.__all__
    assert issubclass(error, errors.NbFusedError)
    with pytest.raises(error) as caught:
        yield
    assert type(caught.value) is error
    message = str(caught.value)
    missing = [word for word in words if word not in message]
    assert not missing, f"{missing} not in: {message}"
