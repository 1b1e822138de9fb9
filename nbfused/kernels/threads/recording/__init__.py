"""Recorded runs of a kernel: what its derivatives need of them, and checks.

- `recalls` finds the accesses that a derivative records, `tapes` makes the derivative
  and the kernels that record; `recorder` runs these on copies.  `barriers` takes those
  of a block out of branches.
- `places`: what threads count by atomic operations is recorded and played back.
- Under ``NBFUSED_DEBUG=1``: `ownership` checks that threads keep to their own, `stale`
  that arrays are as they were before, `races` promises to touch once.
"""
