"""Every op against its reference, on the cpu and, where demanded, on a GPU."""

import pytest

from nbfused import testing


@pytest.mark.parametrize("check", testing.checks(), ids=str)
def test_conformance(check, device):
    check(device)
