// What a matrix instruction computes, for the emulation: said from the elements' side,
// where lanes.h says it from the lanes'.
//
// holds(i, k) is the lane, number n(i, k) of whose elements is element k of row i of
// the left factor, or of column i of the right one; sum_lane(i, j) and sum_n(i, j)
// alike for the sum in row i and column j.  Where two lanes hold the same, both must.
#pragma once
#include "lanes.h"

#if !defined(NBF_LANES)
#define NBF_LANES nbf::Mfma
#endif

namespace nbf {

template <class L> struct Model;
template <> struct Model<Mfma> {
  static constexpr bool twice = false;
  static int holds(int i, int k) { return i + 16 * (k / 4); }
  static int n(int, int k) { return k % 4; }
  static int sum_lane(int i, int j) { return j + 16 * (i / 4); }
  static int sum_n(int i) { return i % 4; }
};
template <> struct Model<Wmma11> {
  static constexpr bool twice = true;
  static int holds(int i, int) { return i; }
  static int n(int, int k) { return k; }
  static int sum_lane(int i, int j) { return j + 16 * (i % 2); }
  static int sum_n(int i) { return i / 2; }
};
template <> struct Model<Wmma12> {
  static constexpr bool twice = false;
  static int holds(int i, int k) { return i + 16 * (k / 8); }
  static int n(int, int k) { return k % 8; }
  static int sum_lane(int i, int j) { return j + 16 * (i / 8); }
  static int sum_n(int i) { return i % 8; }
};

template <bool BRAIN, class L>
float modelled_element(const uint16_t *lanes, int i, int k) {
  const int place = Model<L>::holds(i, k) * L::count + Model<L>::n(i, k);
  if (Model<L>::twice && lanes[place] != lanes[place + 16 * L::count])
    return nan<float>();
  return BRAIN ? from_bf16(lanes[place]) : from_f16(lanes[place]);
}

// Wait for the wave of the instruction, and for nobody else: that would hide a barrier
// which the kernel lacks.  Where waves are narrower there is no other way.
template <class L> void await() {
  if (warpSize >= L::wave) static_cast<void>(__shfl(0, 0, L::wave));
  else __syncthreads();
}

// sums + a b.  Every thread of a block of at most 256 comes here: the first lane of
// each wave does the work.
template <bool BRAIN, class L>
Pack<float, L::sums> modelled(const Pack<uint16_t, L::count> &a,
                              const Pack<uint16_t, L::count> &b,
                              Pack<float, L::sums> sums) {
  __shared__ uint16_t left[256 * L::count], right[256 * L::count];
  __shared__ float added[256 * L::sums];
  const int thread = static_cast<int>(threadIdx.x), first = thread - thread % L::wave;
  memcpy(left + thread * L::count, &a, sizeof a);
  memcpy(right + thread * L::count, &b, sizeof b);
  await<L>();
  if (thread == first) {
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 16; ++j) {
        float sum = 0;
        for (int k = 0; k < 16; ++k)
          sum += modelled_element<BRAIN, L>(left + first * L::count, i, k) *
                 modelled_element<BRAIN, L>(right + first * L::count, j, k);
        const int lane = first + Model<L>::sum_lane(i, j);
        added[lane * L::sums + Model<L>::sum_n(i)] = sum;
      }
    }
  }
  await<L>();
  for (int v = 0; v < L::sums; ++v) sums[v] += added[thread * L::sums + v];
  return sums;
}

}  // namespace nbf
