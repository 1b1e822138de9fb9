"""LLVM code that kernels of several backends share.

========== =========================================================================
`atomics`  atomic operations on elements of every dtype
`division` integer division without a branch
`rounding` conversion of wide numbers to 16-bit floats, rounded once
========== =========================================================================
"""
