"""Matrix products on the CPU: by our own blocked and narrow kernels, or by BLAS.

================ =====================================================================
`direct`         narrow products, multiplied as the factors lie in memory
`direct_ways`    how such a product is made: along which extents, tile, units of work
`direct_text`    generated text of its kernels
`direct_code`    its inner loop along columns, as an LLVM intrinsic
`streams_code`   its inner loop for few rows and many columns
`dots_code`      its inner loop along the sums of both factors
`narrow_code`    what these loops are emitted of
`gemm`           blocked product that applies the epilogue while a block is cached
`gemm_text`      generated text of the kernels of the blocked matrix product
`pairs`          products of bfloat16 by instructions for pairs of such numbers
`launcher`       launcher of `Contract` on the CPU: chooses a kernel or BLAS
`small`          batches of small products, each written out
`matrices`       factors viewed or packed as matrices that BLAS can read
`tile`           the register tile of a matrix product: its shape for this processor
`tile_code`      the inner loop of a product, as an LLVM intrinsic
`transpose_code` transposition in registers, for packing across rows
================ =====================================================================
"""
