"""Products of bfloat16 by the processor's own instructions, which take pairs.

``vdpbf16ps`` multiplies 16 pairs of bfloat16 and adds both products to a float32 each,
so factors are packed in pairs along the sums: a pair takes the place that a float32 has
in `gemm`.

============= =======================================================================
`batch_text`  generated text of the kernel of a batch of products
`batches`     batches of products, each of which one thread makes
`choice`      between packed factors and those that are multiplied as they lie
`column_text` generated text of the kernel of wide products, cut into columns
`columns`     wide products, of which threads have columns
`direct_code` the inner loops of narrow products, as LLVM intrinsics
`pack_code`   pairs made in registers, as LLVM intrinsics
`pack_text`   generated text of the kernels that pack factors in pairs
`tile_code`   the inner loop of a product of packed pairs, as an LLVM intrinsic
`tile_text`   generated text of the kernel that multiplies packed pairs
============= =======================================================================
"""
