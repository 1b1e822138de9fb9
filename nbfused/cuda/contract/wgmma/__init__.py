"""Products on Hopper's tensor cores.

`launch` says which products, `plan` chooses among the tilings of `tiling`; `kernel` is
the text, `results` its way from sums to outputs, `extras` the extras that TMA brings.
"""
