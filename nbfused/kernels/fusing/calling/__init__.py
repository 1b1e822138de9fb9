"""Calls of functions in Python between the launches of a fused function.

- `steps` records them; `calls` are functions of NumPy and PyTorch that no operation
  stands for, `rules` functions with a derivative of their own, and `callback` those
  that a user names.
- `exchange` are calls between processes.
"""
