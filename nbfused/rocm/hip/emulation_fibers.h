// Stacks of their own for flows of control that take turns on one thread of the
// operating system, and the switch between two of them.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#define NBF_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NBF_ADDRESS_SANITIZER 1
#endif
#endif
#if defined(NBF_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

// Pushes what a call preserves, leaves the stack's address at `from`, goes on at `to`.
extern "C" void nbf_emulation_switch(void **from, void *to);
#if defined(__x86_64__)
asm(R"(
.text
.p2align 4
.hidden nbf_emulation_switch
.globl nbf_emulation_switch
.type nbf_emulation_switch, @function
nbf_emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size nbf_emulation_switch, .-nbf_emulation_switch
)");
#elif defined(__aarch64__)
asm(R"(
.text
.p2align 4
.hidden nbf_emulation_switch
.globl nbf_emulation_switch
.type nbf_emulation_switch, %function
nbf_emulation_switch:
  sub sp, sp, #160
  stp x19, x20, [sp]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size nbf_emulation_switch, .-nbf_emulation_switch
)");
#else
#error "the emulation knows the stacks of x86-64 and aarch64 only"
#endif

namespace nbf_emulation {

// A stack, and where a flow that is suspended on it goes on.
struct Fiber {
  void *at = nullptr;
  const void *bottom = nullptr;
  size_t size = 0;
  void *fake = nullptr;  // the address sanitizer's
};

#if defined(NBF_ADDRESS_SANITIZER)
constexpr size_t STACK = 1 << 20;  // it surrounds every variable
#else
constexpr size_t STACK = 256 << 10;
#endif
// Below every stack: larger than most frames, so that none reaches across it.
constexpr size_t GUARD = 64 << 10;

// Gives `fiber` a stack, of which memory is used as far as it is touched.
inline bool make_stack(Fiber &fiber) {
  void *low = mmap(nullptr, GUARD + STACK, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (low == MAP_FAILED) return false;
  if (mprotect(low, GUARD, PROT_NONE) != 0) {
    munmap(low, GUARD + STACK);
    return false;
  }
  fiber.bottom = static_cast<char *>(low) + GUARD;
  fiber.size = STACK;
  return true;
}

// Lets `fiber` begin in `entry`, which never returns.  Stacks begin at different places
// of a page: otherwise all of them would compete for the same lines of the cache.
inline void prepare(Fiber &fiber, void (*entry)(), unsigned number) {
  char *bottom = static_cast<char *>(const_cast<void *>(fiber.bottom));
#if defined(NBF_ADDRESS_SANITIZER)
  __asan_unpoison_memory_region(bottom, fiber.size);
#endif
  void **top = reinterpret_cast<void **>(bottom + fiber.size - number * 192 % 4096);
#if defined(__x86_64__)
  *--top = nullptr;  // where debuggers end
  *--top = reinterpret_cast<void *>(entry);
  for (int k = 0; k < 6; ++k) *--top = nullptr;
#else
  for (int k = 0; k < 20; ++k) *--top = nullptr;
  top[11] = reinterpret_cast<void *>(entry);
#endif
  fiber.at = top;
}

// Goes from one flow to another; `ends` says that the first is never resumed.
inline void go(Fiber &from, Fiber &to, bool ends = false) {
#if defined(NBF_ADDRESS_SANITIZER)
  __sanitizer_start_switch_fiber(ends ? nullptr : &from.fake, to.bottom, to.size);
#endif
  static_cast<void>(ends);
  nbf_emulation_switch(&from.at, to.at);
#if defined(NBF_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(from.fake, nullptr, nullptr);
#endif
}

// What a flow does first.  `before` is where it comes from, if that has no bounds yet.
inline void arrive(Fiber *before) {
#if defined(NBF_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(nullptr, before ? &before->bottom : nullptr,
                                  before ? &before->size : nullptr);
#else
  static_cast<void>(before);
#endif
}

}  // namespace nbf_emulation
