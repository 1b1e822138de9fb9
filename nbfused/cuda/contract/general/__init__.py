"""Products of every dtype, shape and stride.

`launch` chooses a `tile` and counts blocks, `kernel` is the text, `results` the part of
it that stores.
"""
