// Contract by matrix instructions: 16-bit floats multiplied as they are stored, sums in
// float.  A wave computes part of its block's tile, in products of 16 × 16 × 16.
//
// A kernel gives the struct that contract.hip takes, and
//   brain                      whether the factors are bfloat16
// Where the architecture has no such instructions, the plain tile of contract.hip.
#pragma once
#include "contract.hip"
#include "lanes.h"

// NBF_LANES is who holds what, where there are such instructions.
#if defined(NBF_EMULATION)
#include "lanes_model.h"
#elif defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__) || \
    defined(__gfx950__)
#define NBF_LANES nbf::Mfma
#elif defined(__GFX11__)
#define NBF_LANES nbf::Wmma11
#elif defined(__gfx1200__) || defined(__gfx1201__)
#define NBF_LANES nbf::Wmma12
#endif

namespace nbf {
#if defined(NBF_LANES)

// What a lane holds of a factor, as bits, and of the sums; sums + a b, where every lane
// of a wave takes part.
#if defined(NBF_EMULATION)
template <class L> using Held = Pack<uint16_t, L::count>;
template <class L> using Sums = Pack<float, L::sums>;

template <bool BRAIN, class L>
NBF_DEVICE Sums<L> instruction(const Held<L> &a, const Held<L> &b,
                               const Sums<L> &sums) {
  return modelled<BRAIN, L>(a, b, sums);
}
#else
template <class T, int N> struct Vector {
  typedef T type __attribute__((ext_vector_type(N)));
};
template <class T, int N> using vector = typename Vector<T, N>::type;
template <class L> using Held = vector<uint16_t, L::count>;
template <class L> using Sums = vector<float, L::sums>;

template <bool BRAIN, class L>
NBF_DEVICE Sums<L> instruction(Held<L> a, Held<L> b, Sums<L> sums) {
  // A cast between vectors keeps their bits.
  if constexpr (BRAIN) {
    typedef vector<short, L::count> H;
    const H x = (H)a, y = (H)b;
#if defined(__gfx908__)
    // It takes two neighbours along k; the order in which k is summed does not matter.
    sums = __builtin_amdgcn_mfma_f32_16x16x8bf16(x.lo, y.lo, sums, 0, 0, 0);
    return __builtin_amdgcn_mfma_f32_16x16x8bf16(x.hi, y.hi, sums, 0, 0, 0);
#elif defined(__GFX11__)
    return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(x, y, sums);
#elif defined(__GFX12__)
    return __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(x, y, sums);
#else
    return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(x, y, sums, 0, 0, 0);
#endif
  } else {
    typedef vector<_Float16, L::count> H;
    const H x = (H)a, y = (H)b;
#if defined(__GFX11__)
    return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(x, y, sums);
#elif defined(__GFX12__)
    return __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(x, y, sums);
#else
    return __builtin_amdgcn_mfma_f32_16x16x16f16(x, y, sums, 0, 0, 0);
#endif
  }
}
#endif

// A block's tile T as waves share it; in shared memory, neighbours lie along k.
template <class T, class L> struct Waves {
  static constexpr int M = T::M, N = T::N, K = L::slice, THREADS = T::THREADS;
  static constexpr int PAD = 8, PITCH = K + PAD;  // fewer conflicts, 16-byte accesses
  static constexpr int SIDE = 16, ACROSS = 2, DOWN = THREADS / L::wave / ACROSS;
  static constexpr int HIGH = M / DOWN / SIDE, WIDE = N / ACROSS / SIDE;
  static constexpr int ROWS = HIGH * L::sums, COLUMNS = WIDE;
  static constexpr int left_size = M * PITCH;

  NBF_DEVICE int lane() { return static_cast<int>(threadIdx.x) % L::wave; }
  NBF_DEVICE int wave() { return static_cast<int>(threadIdx.x) / L::wave; }
  NBF_DEVICE int top() { return wave() / ACROSS * HIGH * SIDE; }
  NBF_DEVICE int side() { return wave() % ACROSS * WIDE * SIDE; }

  NBF_DEVICE int row(int r) {
    return top() + r / L::sums * SIDE + L::row(lane(), r % L::sums);
  }
  NBF_DEVICE int column(int c) { return side() + c * SIDE + L::outer(lane()); }
  template <int EXTENT> NBF_DEVICE int place(int outer, int k) {
    return outer * PITCH + k;
  }
};

// The factors as they are stored.
template <class F> struct Stored : F {
  using Element = uint16_t;
  template <class W> NBF_DEVICE uint16_t left(const W &w, int64_t at) {
    return w.template pointer<const uint16_t>(0)[at];
  }
  template <class W> NBF_DEVICE uint16_t right(const W &w, int64_t at) {
    return w.template pointer<const uint16_t>(1)[at];
  }
};

// What this lane takes of COUNT products' factors from shared memory, the first of
// which begins at `from`.
template <class V, class L, int COUNT>
NBF_DEVICE void take(const uint16_t *from, Held<L> (&to)[COUNT]) {
  constexpr int width = L::count < 8 ? L::count : 8;
  from += L::outer(V::lane()) * V::PITCH + L::first(V::lane());
  NBF_UNROLL
  for (int p = 0; p < COUNT; ++p) {
    NBF_UNROLL
    for (int q = 0; q < L::count; q += width) {
      const auto pack = load<width>(from, p * V::SIDE * V::PITCH + q);
      NBF_UNROLL
      for (int e = 0; e < width; ++e) to[p][q + e] = pack[e];
    }
  }
}

// Add the product of the slices in shared memory.
template <bool BRAIN, class V, class L>
NBF_DEVICE void multiply_waves(const uint16_t *left, const uint16_t *right,
                               Sums<L> (&sums)[V::HIGH * V::WIDE]) {
  left += V::top() * V::PITCH;
  right += V::side() * V::PITCH;
  NBF_UNROLL
  for (int k = 0; k < V::K; k += V::SIDE) {
    Held<L> a[1], b[V::WIDE];
    take<V, L>(right + k, b);
    NBF_UNROLL
    for (int i = 0; i < V::HIGH; ++i) {
      take<V, L>(left + i * V::SIDE * V::PITCH + k, a);
      NBF_UNROLL
      for (int j = 0; j < V::WIDE; ++j) {
        Sums<L> &sum = sums[i * V::WIDE + j];
        sum = instruction<BRAIN, L>(a[0], b[j], sum);
      }
    }
  }
}

template <class F, class T, class L, class W> NBF_DEVICE void matrix_on(const W &w) {
  using V = Waves<T, L>;
  uint16_t *const left = reinterpret_cast<uint16_t *>(shared());
  uint16_t *const right = left + V::left_size;
  const int64_t size = Inner<F>::size(w);
  const Tiles<F, V> tiles(w);
  if (block_index() >= tiles.count) return;
  const Corner at = corner(tiles, block_index());
  Factor<Stored<F>, V, false> a(w, at.batch, at.m, tiles.rows);
  Factor<Stored<F>, V, true> b(w, at.batch, at.n, tiles.columns);
  Sums<L> parts[V::HIGH * V::WIDE] = {};
  a.fetch(w, 0, size);
  b.fetch(w, 0, size);
  for (int64_t slice = 0; slice < size; slice += V::K) {
    a.keep(left);
    b.keep(right);
    __syncthreads();
    a.fetch(w, slice + V::K, size);
    b.fetch(w, slice + V::K, size);
    multiply_waves<F::brain, V, L>(left, right, parts);
    __syncthreads();
  }
  float sums[V::ROWS * V::COLUMNS];
  NBF_UNROLL
  for (int p = 0; p < V::HIGH * V::WIDE; ++p) {
    NBF_UNROLL
    for (int v = 0; v < L::sums; ++v)
      sums[(p / V::WIDE * L::sums + v) * V::WIDE + p % V::WIDE] = parts[p][v];
  }
  finish(w, tiles, at, sums);
}

#endif

template <class F, class T, class W> NBF_DEVICE void matrix(const W &w) {
#if defined(NBF_LANES)
  matrix_on<F, T, NBF_LANES>(w);
#else
  contract<F, T>(w);
#endif
}

}  // namespace nbf
