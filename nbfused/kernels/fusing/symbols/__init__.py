"""Symbols that a function is traced on, in the place of its arguments.

`unknown` is what all of them share, `arrays` and `numbers` are those of arrays and of
numbers passed by value, `tensors` those of arrays with the methods of PyTorch.
"""
