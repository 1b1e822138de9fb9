// Contract: a batched product in tiles of shared memory, right at every shape and
// stride.
//
// Each block computes a tile of the result, each thread a few rows and columns of it in
// registers.  The next slices of the factors travel to registers while the present
// ones, in shared memory, are multiplied.
//
// A kernel gives a struct F with
//   batch, m, n, k, operands   ranks of the groups of loops, pointers
//   Sum, Element, logical      what sums are kept in, and factors; whether sums are ors
//   along_left, along_right    whether a factor's neighbours in memory follow along k
//   left(w, at), right(w, at)  an element of a factor after its prologue
//   finish(w, sum, at)         the epilogue; `at` is of the operands after the factors
#pragma once
#include "kernel.h"

#if defined(NBF_EMULATION)
#define NBF_ROLL
#else
#define NBF_ROLL _Pragma("unroll 1")
#endif

namespace nbf {

// Extents of a block's tile, of a slice along k, and of a thread's part of the tile,
// which is made of fours of rows and of columns.
template <int M_, int N_, int K_, int ROWS_, int COLUMNS_> struct Tile {
  static constexpr int M = M_, N = N_, K = K_, ROWS = ROWS_, COLUMNS = COLUMNS_;
  static constexpr int ACROSS = N / COLUMNS, DOWN = M / ROWS, THREADS = DOWN * ACROSS;
  static constexpr int PAD = 4;  // elements between a slice's rows: fewer conflicts

  // Where this thread's rows and columns are, and elements of slices in shared memory.
  NBF_DEVICE int row(int r) {
    return static_cast<int>(threadIdx.x) / ACROSS * 4 + r / 4 * (DOWN * 4) + r % 4;
  }
  NBF_DEVICE int column(int c) {
    return static_cast<int>(threadIdx.x) % ACROSS * 4 + c / 4 * (ACROSS * 4) + c % 4;
  }
  template <int EXTENT> NBF_DEVICE int place(int outer, int k) {
    return k * (EXTENT + PAD) + outer;
  }
  static constexpr int left_size = K * (M + PAD);
};

// Coordinates in one group of loops, the first of which is number FIRST.
template <class F, int FIRST, int RANK> struct Loops {
  int64_t at[RANK > 0 ? RANK : 1];

  template <class W> NBF_DEVICE int64_t size(const W &w) {
    return product<RANK>(w, F::operands + FIRST);
  }
  template <class W> __device__ inline Loops(const W &w, int64_t index) {
    NBF_UNROLL
    for (int k = RANK - 1; k > 0; --k) {
      const int64_t extent = w.integer(F::operands + FIRST + k);
      const int64_t rest = divide(index, extent);
      at[k] = index - rest * extent;
      index = rest;
    }
    at[0] = index;
  }
  template <class W> __device__ inline int64_t offset(const W &w, int operand) const {
    constexpr int loops = F::batch + F::m + F::n + F::k;
    const int strides = F::operands + loops * (1 + operand) + FIRST;
    int64_t sum = 0;
    NBF_UNROLL
    for (int k = 0; k < RANK; ++k) sum += at[k] * w.integer(strides + k);
    return sum;
  }
};
template <class F> using Batch = Loops<F, 0, F::batch>;
template <class F> using Rows = Loops<F, F::batch, F::m>;
template <class F> using Columns = Loops<F, F::batch + F::m, F::n>;
template <class F> using Inner = Loops<F, F::batch + F::m + F::n, F::k>;

// The tiles of all products.  Eight follow one another down before the next column, so
// that the rows and columns of the factors in use stay in the L2 cache.
template <class F, class T> struct Tiles {
  static constexpr int BAND = 8;
  int64_t rows, columns, down, wide, count;

  template <class W> __device__ inline explicit Tiles(const W &w) {
    rows = Rows<F>::size(w);
    columns = Columns<F>::size(w);
    down = (rows + T::M - 1) / T::M;
    wide = (columns + T::N - 1) / T::N;
    count = Batch<F>::size(w) * down * wide;
  }
};

// Where a tile begins.
struct Corner {
  int64_t batch, m, n;
};
template <class F, class T>
NBF_DEVICE Corner corner(const Tiles<F, T> &tiles, int64_t tile) {
  constexpr int64_t most = Tiles<F, T>::BAND;
  const int64_t batch = divide(tile, tiles.down * tiles.wide);
  int64_t place = tile - batch * tiles.down * tiles.wide;
  const int64_t band = divide(place, most * tiles.wide);
  place -= band * most * tiles.wide;
  const int64_t left = tiles.down - band * most, height = left < most ? left : most;
  const int64_t column = divide(place, height);
  return {batch, (band * most + place - column * height) * T::M, column * T::N};
}

// What a thread brings of one factor's slices: COUNT elements, on their way in
// registers. They follow one another across k, or along it, so that neighbouring
// threads bring neighbours in memory.
template <class F, class T, bool RIGHT> struct Factor {
  static constexpr int EXTENT = RIGHT ? T::N : T::M, COUNT = EXTENT * T::K / T::THREADS;
  static constexpr bool ACROSS = RIGHT ? F::along_right : F::along_left;
  static constexpr int LINE = ACROSS ? T::K : EXTENT, STEP = T::THREADS / LINE;
  static_assert(COUNT * STEP * LINE == EXTENT * T::K, "threads share a slice evenly");

  int64_t at[ACROSS ? COUNT : 1];  // offsets without k's part
  int inside = 0;                  // how many of them are in the factor
  typename F::Element next[COUNT];

  NBF_DEVICE int fast() { return static_cast<int>(threadIdx.x) % LINE; }
  NBF_DEVICE int slow(int e) { return static_cast<int>(threadIdx.x) / LINE + e * STEP; }

  template <class W>
  __device__ inline Factor(const W &w, int64_t batch, int64_t first, int64_t size) {
    const int64_t base = Batch<F>(w, batch).offset(w, RIGHT);
    NBF_UNROLL
    for (int e = 0; e < (ACROSS ? COUNT : 1); ++e) {
      const int64_t index = first + (ACROSS ? slow(e) : fast());
      inside += index < size;
      if constexpr (RIGHT) at[e] = base + Columns<F>(w, index).offset(w, 1);
      else at[e] = base + Rows<F>(w, index).offset(w, 0);
    }
  }
  // The slice from `slice` on to registers; zero outside the factor.
  template <class W>
  __device__ inline void fetch(const W &w, int64_t slice, int64_t size) {
    if constexpr (ACROSS) {
      const int count = slice + fast() < size ? inside : 0;
      const int64_t along = Inner<F>(w, slice + fast()).offset(w, RIGHT);
      NBF_UNROLL
      for (int e = 0; e < COUNT; ++e) bring(w, e, e < count, at[e] + along);
    } else {
      const int64_t end = inside ? size : 0;
      NBF_UNROLL
      for (int e = 0; e < COUNT; ++e) {
        const int64_t k = slice + slow(e);
        bring(w, e, k < end, at[0] + Inner<F>(w, k).offset(w, RIGHT));
      }
    }
  }
  template <class W>
  __device__ inline void bring(const W &w, int e, bool there, int64_t place) {
    next[e] = typename F::Element();
    if (!there) return;
    if constexpr (RIGHT) next[e] = F::right(w, place);
    else next[e] = F::left(w, place);
  }
  // Registers to shared memory.
  __device__ inline void keep(typename F::Element *tile) const {
    NBF_UNROLL
    for (int e = 0; e < COUNT; ++e)
      tile[ACROSS ? T::template place<EXTENT>(slow(e), fast())
                  : T::template place<EXTENT>(fast(), slow(e))] = next[e];
  }
};

// total + a * b: integers wrap around.
NBF_DEVICE float multiply_add(float total, float a, float b) { return total + a * b; }
NBF_DEVICE double multiply_add(double total, double a, double b) {
  return total + a * b;
}
template <class T>
NBF_DEVICE complex<T> multiply_add(complex<T> total, complex<T> a, complex<T> b) {
  return total + a * b;
}
template <class T> NBF_DEVICE T multiply_add(T total, T a, T b) {
  return static_cast<T>(static_cast<uint64_t>(total) +
                        static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// COUNT elements of shared memory, four neighbours after each `step`, in accesses of at
// most 16 bytes.
template <int COUNT, class T>
NBF_DEVICE void fours(const T *from, int step, T (&to)[COUNT]) {
  constexpr int width = sizeof(T) > 4 ? 16 / sizeof(T) : 4;
  NBF_UNROLL
  for (int q = 0; q < COUNT; q += width) {
    const Pack<T, width> pack = load<width>(from, q / 4 * step + q % 4);
    NBF_UNROLL
    for (int e = 0; e < width; ++e) to[q + e] = pack[e];
  }
}

// Add the product of the slices in shared memory.
template <class F, class T, class Sum>
NBF_DEVICE void multiply(const Sum *left, const Sum *right,
                         Sum (&sums)[T::ROWS * T::COLUMNS]) {
  left += T::row(0);
  right += T::column(0);
  NBF_UNROLL
  for (int k = 0; k < T::K; ++k) {
    Sum a[T::ROWS], b[T::COLUMNS];
    fours(left + k * (T::M + T::PAD), T::DOWN * 4, a);
    fours(right + k * (T::N + T::PAD), T::ACROSS * 4, b);
    NBF_UNROLL
    for (int r = 0; r < T::ROWS; ++r) {
      NBF_UNROLL
      for (int c = 0; c < T::COLUMNS; ++c) {
        Sum &sum = sums[r * T::COLUMNS + c];
        if constexpr (F::logical) sum |= a[r] & b[c];
        else sum = multiply_add(sum, a[r], b[c]);
      }
    }
  }
}

template <class T> NBF_DEVICE T choose(bool first, T a, T b) { return first ? a : b; }
template <class T>
NBF_DEVICE complex<T> choose(bool first, complex<T> a, complex<T> b) {
  return {first ? a.real : b.real, first ? a.imag : b.imag};
}

// values[index * STEP + at]; by comparisons, as registers have no index: local memory
// is slow.
template <int STEP, int N, class T>
NBF_DEVICE T pick(const T (&values)[N], int index, int at) {
#if defined(NBF_EMULATION)
  return values[index * STEP + at];
#else
  T found = values[at];
  NBF_UNROLL
  for (int k = STEP; k < N; k += STEP)
    found = choose(k == index * STEP, values[k + at], found);
  return found;
#endif
}

// The epilogue at each of this thread's elements; its text is there once, in loops.
template <class F, class T, class W, class Sum>
NBF_DEVICE void finish(const W &w, const Tiles<F, T> &tiles, const Corner &corner,
                       const Sum (&sums)[T::ROWS * T::COLUMNS]) {
  constexpr int others = F::operands - 2;
  const Batch<F> batch(w, corner.batch);
  NBF_ROLL
  for (int r = 0; r < T::ROWS; ++r) {
    const int64_t m = corner.m + T::row(r);
    if (m >= tiles.rows) continue;
    const Rows<F> row(w, m);
    Sum line[T::COLUMNS];
    NBF_UNROLL
    for (int c = 0; c < T::COLUMNS; ++c) line[c] = pick<T::COLUMNS>(sums, r, c);
    NBF_ROLL
    for (int c = 0; c < T::COLUMNS; ++c) {
      const int64_t n = corner.n + T::column(c);
      if (n >= tiles.columns) continue;
      const Columns<F> column(w, n);
      int64_t at[others];
      NBF_UNROLL
      for (int o = 0; o < others; ++o)
        at[o] = batch.offset(w, o + 2) + row.offset(w, o + 2) + column.offset(w, o + 2);
      F::finish(w, pick<1>(line, c, 0), at);
    }
  }
}

// The tile of this block: blocks lie along x and, where they are very many, along y.
NBF_DEVICE int64_t block_index() {
  return static_cast<int64_t>(blockIdx.y) * gridDim.x + blockIdx.x;
}

template <class F, class T, class W> NBF_DEVICE void contract(const W &w) {
  using Sum = typename F::Sum;
  Sum *const left = reinterpret_cast<Sum *>(shared());
  Sum *const right = left + T::left_size;
  const int64_t size = Inner<F>::size(w);
  const Tiles<F, T> tiles(w);
  if (block_index() >= tiles.count) return;
  const Corner at = corner(tiles, block_index());
  Factor<F, T, false> a(w, at.batch, at.m, tiles.rows);
  Factor<F, T, true> b(w, at.batch, at.n, tiles.columns);
  Sum sums[T::ROWS * T::COLUMNS] = {};
  a.fetch(w, 0, size);
  b.fetch(w, 0, size);
  for (int64_t slice = 0; slice < size; slice += T::K) {
    a.keep(left);
    b.keep(right);
    __syncthreads();
    a.fetch(w, slice + T::K, size);
    b.fetch(w, slice + T::K, size);
    multiply<F, T>(left, right, sums);
    __syncthreads();
  }
  finish(w, tiles, at, sums);
}

}  // namespace nbf
