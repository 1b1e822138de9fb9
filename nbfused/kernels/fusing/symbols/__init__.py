"""Symbols in the place of a traced function's arguments.

`unknown` is what all of them share, `arrays` and `numbers` are those of arrays and of
numbers passed by value, `tensors` those of arrays with the methods of PyTorch.
"""
