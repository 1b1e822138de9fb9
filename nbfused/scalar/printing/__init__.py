"""Scalar functions as text for a compiler, or for a reader.

`printer` is what printers share; `numba`, `hip` and `python` are the printers;
`numba_operations` and `hip_operations` spell single operations, `formulas` and
`trigonometry` those that no function of Numba gives, `rewrite` saves instructions;
`identifiers` lets no name from outside become part of a program.
"""
