// The states of reductions: combined within a thread, a group of lanes, a block.
//
// A `Pass` is a struct that the Python side prints, with what varies:
//
//   State                        a plain struct
//   LONG                         whether merge has many steps
//   identity()                   the neutral State
//   merge(a, b)                  of two States
//   exchange(state, mask)        the State of the lane whose number differs in `mask`
//   Load<N>                      what N neighbouring elements are made from
//   load<N>(w, values, place)    reads it
//   element(w, values, load, e, place, size)   the State of its e-th element
//
// `values` is what is known of the point or row that is reduced.  Functions that take
// many threads, `across_*`, must be called by all threads of a block together.
#pragma once
#include "kernel.h"

// What is printed takes everything that some function needs.
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wtautological-compare"  // of NaN, on integers

namespace nbf {

// Lanes that exchange values without shared memory; every wave is a multiple of it.
constexpr int GROUP = 32;

// Merge 2 * HALF states into the first, pairwise: rounding errors grow as a logarithm.
template <class Pass, int HALF> NBF_DEVICE void fold(typename Pass::State *states) {
  if constexpr (HALF > 0) {
    NBF_UNROLL
    for (int k = 0; k < HALF; ++k) states[k] = Pass::merge(states[k], states[k + HALF]);
    fold<Pass, HALF / 2>(states);
  }
}

// Add to `state` the elements of EACH accesses, STEP apart, of WIDTH neighbours.
// All reads are started before the first is waited for.
template <class Pass, int EACH, int WIDTH, int STEP, class W, class Values>
NBF_DEVICE void take(const W &w, const Values &values, typename Pass::State &state,
                     int64_t place, int64_t size) {
  typename Pass::template Load<WIDTH> loads[EACH];
  NBF_UNROLL
  for (int k = 0; k < EACH; ++k)
    loads[k] = Pass::template load<WIDTH>(w, values, place + k * STEP);
  typename Pass::State found[EACH * WIDTH];
  NBF_UNROLL
  for (int k = 0; k < EACH; ++k) {
    NBF_UNROLL
    for (int e = 0; e < WIDTH; ++e)
      found[k * WIDTH + e] =
          Pass::element(w, values, loads[k], e, place + k * STEP + e, size);
  }
  fold<Pass, EACH * WIDTH / 2>(found);
  state = Pass::merge(state, found[0]);
}

// What one of LANES lanes makes of the elements from `begin` to `end`: accesses of
// WIDTH neighbours, EACH of them at a time.  WHOLE: a multiple of WIDTH.
template <class Pass, int LANES, int EACH, int WIDTH, bool WHOLE, class W, class Values>
NBF_DEVICE typename Pass::State walk(const W &w, const Values &values, int lane,
                                     int64_t begin, int64_t end, int64_t size) {
  constexpr int STEP = LANES * WIDTH, REST = WHOLE ? WIDTH : 1;
  typename Pass::State state = Pass::identity();
  int64_t first = begin;
  if constexpr (EACH * WIDTH > REST)
    for (; first + EACH * STEP <= end; first += EACH * STEP)
      take<Pass, EACH, WIDTH, STEP>(w, values, state, first + lane * WIDTH, size);
  for (int64_t j = first + lane * REST; j < end; j += LANES * REST)
    take<Pass, 1, REST, 0>(w, values, state, j, size);
  return state;
}

// Merge the states of this lane and of the one whose number differs in `mask`.  The
// lower lane's comes first, so that both get the same bits.
template <class Pass> NBF_DEVICE void meet(typename Pass::State &state, int mask) {
  const typename Pass::State other = Pass::exchange(state, mask);
  const bool upper = (static_cast<int>(threadIdx.x) & mask) != 0;
  state = Pass::merge(upper ? other : state, upper ? state : other);
}

// Every lane of a group of LANES neighbours gets the group's state.
template <class Pass, int LANES>
NBF_DEVICE typename Pass::State across_lanes(typename Pass::State state) {
  if constexpr (Pass::LONG) {
    NBF_LOOP
    for (int mask = LANES / 2; mask > 0; mask /= 2) meet<Pass>(state, mask);
  } else {
    NBF_UNROLL
    for (int mask = LANES / 2; mask > 0; mask /= 2) meet<Pass>(state, mask);
  }
  return state;
}

// Every lane of LANES, a group's or all of a block's, gets their state.
template <class Pass, int LANES>
NBF_DEVICE typename Pass::State across(typename Pass::State state) {
  if constexpr (LANES <= GROUP) {
    return across_lanes<Pass, LANES>(state);
  } else {
    constexpr int GROUPS = LANES / GROUP;
    const int thread = static_cast<int>(threadIdx.x);
    __shared__ typename Pass::State shared[GROUPS];
    state = across_lanes<Pass, GROUP>(state);
    if (thread % GROUP == 0) shared[thread / GROUP] = state;
    __syncthreads();
    state = shared[thread % GROUPS];
    __syncthreads();  // before anything is written there again
    return across_lanes<Pass, GROUPS>(state);
  }
}

}  // namespace nbf
