"""`Contract` on CUDA: a ladder of kernels, by compute capability and layout.

From the top: `wgmma` (16-bit floats on Hopper's tensor cores), `tf32` and
`tf32_launch`, `f32` (Hopper's ordinary cores), `mma` and `mma_launch` (by
``cp.async``), `general` (every dtype, shape and stride).  `launcher` walks down;
`calls` says what can multiply a call, `pack` brings factors into another order first,
`sums` adds parts and vectors, `tall` multiplies short rows as they lie.  `plan` has the
extents of the rungs between, `tma` what they share where TMA feeds them, `text` and
`results` what the texts of all share.
"""
