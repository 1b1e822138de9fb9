"""Products in float32 on Hopper's ordinary cores.

`launch` says which products and chooses plans, `kernel` is the text, `tiles` the part
of it that turns tiles in shared memory.
"""
