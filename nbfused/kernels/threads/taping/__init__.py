"""Launches of kernels that the tape records.

- `launches`: what a kernel writes to Variables becomes their value; `derived` are the
  derivatives of that, of any order.
- `as_op`: an operation that allocates its outputs; `op_nodes` are its nodes.
- `leaves`: the arguments as a flat list.
"""
