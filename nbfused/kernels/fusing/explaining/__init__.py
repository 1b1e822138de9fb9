"""Texts about a fused function.

- `explain` tells of its launches, `boundaries` why they are not fewer, `drawing` draws
  their graph.
- `source` has the text of its kernels.
"""
