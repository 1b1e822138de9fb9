// Which elements of a 16 × 16 × 16 product the lanes of a wave hold, for the matrix
// instructions of AMD GPUs on 16-bit floats with float sums.
//
// Facts from AMD: for CDNA 1 and 2 and RDNA 3 the equations of its Matrix Instruction
// Calculator (github.com/ROCm/amd_matrix_instruction_calculator); CDNA 3 and 4 are taken
// to be as CDNA 2.  For RDNA 4 what others cite of its article "Using the Matrix Cores of
// AMD RDNA 4 architecture GPUs".  We have run none of them on such a GPU.
//
// Of the left factor a lane holds `count` neighbours along k, from first(lane) on, in
// row outer(lane); of the right factor likewise in column outer(lane).  Of the sums it
// holds `sums`, number v of them in row(lane, v), all in column outer(lane).  `slice`
// is how much of k is in shared memory at a time, as the registers of a lane allow.
#pragma once
#include "portable.h"

namespace nbf {

// v_mfma_f32_16x16x16_{f16,bf16}: gfx908, gfx90a, gfx942, gfx950.  Four groups of 16
// lanes, each with four neighbours along k, and with four rows of the sums.
struct Mfma {
  static constexpr int wave = 64, count = 4, sums = 4, slice = 32;
  static constexpr NBF_MEMBER int outer(int lane) { return lane % 16; }
  static constexpr NBF_MEMBER int first(int lane) { return lane / 16 * 4; }
  static constexpr NBF_MEMBER int row(int lane, int v) { return lane / 16 * 4 + v; }
};

// v_wmma_f32_16x16x16_{f16,bf16} of gfx11, in waves of 32: both groups of 16 lanes
// hold all of k; rows of the sums alternate between them.
struct Wmma11 {
  static constexpr int wave = 32, count = 16, sums = 8, slice = 16;
  static constexpr NBF_MEMBER int outer(int lane) { return lane % 16; }
  static constexpr NBF_MEMBER int first(int) { return 0; }
  static constexpr NBF_MEMBER int row(int lane, int v) { return 2 * v + lane / 16; }
};

// The same of gfx12: each group of 16 lanes holds half of k, and half of the rows.
struct Wmma12 {
  static constexpr int wave = 32, count = 8, sums = 8, slice = 16;
  static constexpr NBF_MEMBER int outer(int lane) { return lane % 16; }
  static constexpr NBF_MEMBER int first(int lane) { return lane / 16 * 8; }
  static constexpr NBF_MEMBER int row(int lane, int v) { return lane / 16 * 8 + v; }
};

}  // namespace nbf
