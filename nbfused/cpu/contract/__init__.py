"""Matrix products on the CPU: by our own blocked and narrow kernels, or by BLAS.

================ =====================================================================
`direct`         products of few rows or columns, multiplied as the factors lie
`direct_code`    the inner loop of a narrow product, as an LLVM intrinsic
`gemm`           blocked product that applies the epilogue while a block is cached
`gemm_text`      generated text of the kernels of the blocked matrix product
`launcher`       launcher of `Contract` on the CPU: chooses a kernel or BLAS
`matrices`       factors viewed or packed as matrices that BLAS can read
`tile`           the register tile of a matrix product: its shape for this processor
`tile_code`      the inner loop of a product, as an LLVM intrinsic
`transpose_code` transposition in registers, for packing across rows
================ =====================================================================
"""
