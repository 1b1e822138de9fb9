// Row: reductions along the columns, one after the other, then a value for each
// element, in one launch.
//
// A `Task`, printed by the Python side, has
//
//   ROWS, EXTENTS                number of loops over the rows, the word of the first
//                                extent; after them comes the number of columns
//   CACHED, SUMS                 whether elements are kept in shared memory, whether
//                                there are outputs that are sums over rows
//   room(columns)                bytes of shared memory for a group of lanes
//   begin(w, row, room, columns) the values of a row before its stages: where operands
//                                begin, what the row has one of
//   Copy<N>, fetch<N>(w, values, place), keep<N>(values, place, copy)   elements to
//                                shared memory, by way of registers
//   Load<N>, load<N>(w, values, place), Results<N>
//   element(w, values, load, e, place, size, results)   as of a Pass, but to results
//   put<N>(w, values, sums, place, results)             stores or adds them
//   finish(w, values, size)      stores what a row has one of
//   start(w, room, columns)      this thread's part of the sums over rows
//   clear<N>(sums, place), total<THREADS, GROUPS>(w, sums, columns)
//
// A stage is a Pass (states.h) with post(w, values, state, size), which adds to values.
#pragma once
#include "states.h"

namespace nbf {

template <class... Stages> struct Sequence {};

// Accesses of a lane that are on their way to shared memory at a time.
constexpr int AHEAD = 4;

// Bytes of `count` elements, so that what follows them is aligned too.
template <class T> NBF_DEVICE int64_t padded(int64_t count) {
  return (count * static_cast<int64_t>(sizeof(T)) + 15) & -16;
}

// Add values to the sums from `place` on; `Sum` is a Pass.
template <class Sum, int N>
NBF_DEVICE void add(typename Sum::State *sums, int64_t place,
                    const Pack<typename Sum::State, N> &values) {
  Pack<typename Sum::State, N> found = load<N>(sums, place);
  NBF_UNROLL
  for (int k = 0; k < N; ++k) found[k] = Sum::merge(found[k], values[k]);
  store<N>(sums, place, found);
}
template <class Sum, int N>
NBF_DEVICE void add(typename Sum::State &sum,
                    const Pack<typename Sum::State, N> &values) {
  NBF_UNROLL
  for (int k = 0; k < N; ++k) sum = Sum::merge(sum, values[k]);
}
template <class Sum, int N>
NBF_DEVICE void clear(typename Sum::State *sums, int64_t place) {
  NBF_UNROLL
  for (int k = 0; k < N; ++k) sums[place + k] = Sum::identity();
}

// A block's sum, of all its threads, to its place in memory.
template <class Sum, int THREADS>
NBF_DEVICE void total(const typename Sum::State &sum, typename Sum::State *out) {
  const typename Sum::State all = across<Sum, THREADS>(sum);
  if (threadIdx.x == 0) out[blockIdx.x] = all;
}
// A block's sums by column, from those of its groups, which lie `room` bytes apart.
template <class Sum, int THREADS, int GROUPS>
NBF_DEVICE void total(const typename Sum::State *first, int64_t room, int64_t columns,
                      typename Sum::State *out) {
  const auto *bytes = reinterpret_cast<const unsigned char *>(first);
  for (int64_t j = threadIdx.x; j < columns; j += THREADS) {
    typename Sum::State sum = Sum::identity();
    for (int k = 0; k < GROUPS; ++k)
      sum = Sum::merge(
          sum, reinterpret_cast<const typename Sum::State *>(bytes + k * room)[j]);
    out[blockIdx.x * columns + j] = sum;
  }
}

// A row's elements to shared memory; EACH reads are on their way at a time.
template <class Task, int LANES, int EACH, int WIDTH, class W, class Values>
NBF_DEVICE void copy_row(const W &w, const Values &values, int lane, int64_t end) {
  constexpr int STEP = LANES * WIDTH;
  for (int64_t j = lane * WIDTH; j < end; j += EACH * STEP) {
    typename Task::template Copy<WIDTH> copies[EACH];
    NBF_UNROLL
    for (int k = 0; k < EACH; ++k)
      if (j + k * STEP < end)
        copies[k] = Task::template fetch<WIDTH>(w, values, j + k * STEP);
    NBF_UNROLL
    for (int k = 0; k < EACH; ++k)
      if (j + k * STEP < end) Task::keep(values, j + k * STEP, copies[k]);
  }
}

template <class Stage, int LANES, int EACH, int WIDTH, class W, class Values>
NBF_DEVICE void reduce_row(const W &w, Values &values, int lane, int64_t end,
                           int64_t size) {
  const typename Stage::State state =
      walk<Stage, LANES, EACH, WIDTH, true>(w, values, lane, 0, end, size);
  Stage::post(w, values, across<Stage, LANES>(state), size);
}

// The outputs at EACH accesses, STEP apart, of WIDTH neighbours.
template <class Task, int EACH, int WIDTH, int STEP, class W, class Values, class Sums>
NBF_DEVICE void finish_elements(const W &w, const Values &values, Sums &sums,
                                int64_t place, int64_t size) {
  typename Task::template Load<WIDTH> loads[EACH];
  NBF_UNROLL
  for (int k = 0; k < EACH; ++k)
    loads[k] = Task::template load<WIDTH>(w, values, place + k * STEP);
  NBF_UNROLL
  for (int k = 0; k < EACH; ++k) {
    typename Task::template Results<WIDTH> results;
    NBF_UNROLL
    for (int e = 0; e < WIDTH; ++e)
      Task::element(w, values, loads[k], e, place + k * STEP + e, size, results);
    Task::template put<WIDTH>(w, values, sums, place + k * STEP, results);
  }
}

template <class Task, int LANES, int EACH, int WIDTH, class W, class Values, class Sums>
NBF_DEVICE void finish_row(const W &w, const Values &values, Sums &sums, int lane,
                           int64_t end, int64_t size) {
  constexpr int STEP = LANES * WIDTH;
  int64_t j = lane * WIDTH;
  if constexpr (EACH > 1)
    for (; j + (EACH - 1) * STEP < end; j += EACH * STEP)
      finish_elements<Task, EACH, WIDTH, STEP>(w, values, sums, j, size);
  for (; j < end; j += STEP)
    finish_elements<Task, 1, WIDTH, 0>(w, values, sums, j, size);
}

// A group of LANES threads for each row: at most a GROUP, with several rows in a block,
// or all of the block's.  The number of columns is a multiple of WIDTH.  A lane takes
// the same columns of every row: nobody else reads what it keeps in shared memory.
template <class Task, int THREADS, int LANES, int EACH, int WIDTH, class W,
          class... Stages>
NBF_DEVICE void row(const W &w, Sequence<Stages...>) {
  constexpr int GROUPS = THREADS / LANES;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % LANES, group = thread / LANES;
  const int64_t rows = product<Task::ROWS>(w, Task::EXTENTS);
  const int64_t columns = w.integer(Task::EXTENTS + Task::ROWS);
  unsigned char *const room = shared() + group * Task::room(columns);
  auto sums = Task::start(w, room, columns);
  if constexpr (Task::SUMS)
    for (int64_t j = lane * WIDTH; j < columns; j += LANES * WIDTH)
      Task::template clear<WIDTH>(sums, j);
  const int64_t step = static_cast<int64_t>(gridDim.x) * GROUPS;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * GROUPS; first < rows;
       first += step) {
    const bool inside = first + group < rows;  // else a thread still exchanges states
    const int64_t end = inside ? columns : 0;
    auto values = Task::begin(w, inside ? first + group : 0, room, columns);
    if constexpr (Task::CACHED)
      copy_row<Task, LANES, AHEAD, WIDTH>(w, values, lane, end);
    (reduce_row<Stages, LANES, EACH, WIDTH>(w, values, lane, end, columns), ...);
    finish_row<Task, LANES, EACH, WIDTH>(w, values, sums, lane, end, columns);
    if (inside && lane == 0) Task::finish(w, values, columns);
  }
  if constexpr (Task::SUMS) {
    __syncthreads();
    Task::template total<THREADS, GROUPS>(w, sums, columns);
  }
}

}  // namespace nbf
