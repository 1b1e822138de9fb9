"""LLVM code that kernels of several backends share.

========== =========================================================================
`atomics`  atomic operations on elements of every dtype
`bits`     the bits of a number as another type
`division` integer division without a branch
`masks`    vectors of which some lanes are neither read nor written
`rounding` conversion of wide numbers to 16-bit floats, rounded once
========== =========================================================================
"""
