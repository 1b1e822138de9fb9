// Map: a scalar function at every point of a nest of loops.
//
// A kernel gives a struct F with
//   rank, extents, operands    loops, the word of the first extent, pointers
//   boxes                      boxes of points, which have a place after the operands'
//   places(w, c, at)           offsets of the operands, in elements, at coordinates c,
//                              and whether these are in each box
//   points(w, group)           the function at the points of a group, see below
#pragma once
#include "kernel.h"

namespace nbf {

// The offsets of the operands at a flat C-order index; the innermost loop has `inner`
// steps of N points.
template <class F, int N, class W>
NBF_DEVICE void places(const W &w, int64_t index, int64_t inner, int64_t *at) {
  int64_t c[F::rank];
  for (int k = F::rank - 1; k > 0; --k) {
    const int64_t extent = k == F::rank - 1 ? inner : w.integer(F::extents + k);
    const int64_t rest = divide(index, extent);
    c[k] = index - rest * extent;
    index = rest;
  }
  c[0] = index;
  c[F::rank - 1] *= N;
  F::places(w, c, at);
}

// N points that follow one another in the innermost loop.
template <class F, int N> struct Neighbours {
  static constexpr int size = N;
  int64_t first, at[F::operands + F::boxes];

  __device__ inline int64_t index(int k) const { return first + k; }
  template <class T> __device__ inline Pack<T, N> load(int operand, const T *p) const {
    return nbf::load<N>(p, at[operand]);
  }
  template <class T> __device__ inline Pack<T, N> repeat(int operand, const T *p) const {
    return nbf::repeat<N>(p, at[operand]);
  }
  template <class T>
  __device__ inline void store(int operand, T *p, const Pack<T, N> &pack) const {
    nbf::store<N>(p, at[operand], pack);
  }
};

// N points anywhere, `step` apart in C order.
template <class F, int N> struct Apart {
  static constexpr int size = N;
  int64_t first, step, at[N][F::operands + F::boxes];

  __device__ inline int64_t index(int k) const { return first + k * step; }
  template <class T> __device__ inline Pack<T, N> load(int operand, const T *p) const {
    Pack<T, N> pack;
    NBF_UNROLL
    for (int k = 0; k < N; ++k) pack[k] = p[at[k][operand]];
    return pack;
  }
  template <class T> __device__ inline Pack<T, N> repeat(int operand, const T *p) const {
    return load(operand, p);
  }
  __device__ inline bool inside(int box, int k) const { return at[k][box] != 0; }
  template <class T>
  __device__ inline Pack<T, N> window(int operand, int box, const T *p) const {
    Pack<T, N> pack;
    NBF_UNROLL
    for (int k = 0; k < N; ++k) pack[k] = at[k][box] ? p[at[k][operand]] : T();
    return pack;
  }
  template <class T>
  __device__ inline void store(int operand, T *p, const Pack<T, N> &pack) const {
    NBF_UNROLL
    for (int k = 0; k < N; ++k) p[at[k][operand]] = pack[k];
  }
};

template <class F, int N, class W>
NBF_DEVICE void neighbours(const W &w, int64_t group, int64_t inner) {
  Neighbours<F, N> points;
  points.first = group * N;
  places<F, N>(w, group, inner, points.at);
  F::points(w, points);
}

template <class F, int N, class W>
NBF_DEVICE void apart(const W &w, int64_t first, int64_t step) {
  const int64_t inner = w.integer(F::extents + F::rank - 1);
  Apart<F, N> points;
  points.first = first;
  points.step = step;
  NBF_UNROLL
  for (int k = 0; k < N; ++k) places<F, 1>(w, first + k * step, inner, points.at[k]);
  F::points(w, points);
}

// Accesses of N elements.  The innermost loop is a multiple of N, unless it is the only
// one: then a thread for each takes those that remain.
template <class F, int N, class W> NBF_DEVICE void map_neighbours(const W &w) {
  const int64_t extent = w.integer(F::extents + F::rank - 1);
  const int64_t inner = divide(extent, N);
  const int64_t groups = inner * product<F::rank - 1>(w, F::extents);
  for (int64_t k = thread_index(); k < groups; k += thread_count())
    neighbours<F, N>(w, k, inner);
  if (F::rank == 1 && N > 1) {
    const int64_t k = inner * N + thread_index();
    if (k < extent) neighbours<F, 1>(w, k, extent);
  }
}

// Any strides.  Each thread of a block takes N points, neighbours of other threads'.
template <class F, int N, class W> NBF_DEVICE void map_apart(const W &w) {
  const int64_t size = product<F::rank>(w, F::extents), step = blockDim.x;
  int64_t first = blockIdx.x * (N * step) + threadIdx.x;
  for (; first < size; first += N * thread_count()) {
    if (first + (N - 1) * step < size) {
      apart<F, N>(w, first, step);
    } else {
      for (int64_t k = first; k < size; k += step) apart<F, 1>(w, k, step);
    }
  }
}

}  // namespace nbf
