"""Recorded runs of a kernel: what its derivatives need of them, and checks.

- `tapes` makes the derivatives of kernels that read what they write; `recorder` runs a
  kernel on copies to fill their tapes.
- Under ``NBFUSED_DEBUG=1``: `ownership` checks that threads keep to their own, `stale`
  that arrays are as they were before, `races` promises to touch once.
"""
