/*
 * The new process shares the memory of its parent, so that starting it copies nothing. Therefore it must not use Node or
 * the C library, whose data belongs to a thread of the parent: it makes system calls and nothing else.
 */
#define _GNU_SOURCE
#include "start-process.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>

static const long first_error = -4095;
static const int exit_code_of_failure = 127;

#if defined(__x86_64__)
static inline long system_call(long number, const long values[4]) {
  register long fourth __asm__("r10") = values[3];
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(values[0]), "S"(values[1]), "d"(values[2]), "r"(fourth)
                   : "rcx", "r11", "memory");
  return result;
}
#elif defined(__aarch64__)
static inline long system_call(long number, const long values[4]) {
  register long call __asm__("x8") = number;
  register long first __asm__("x0") = values[0];
  register long second __asm__("x1") = values[1];
  register long third __asm__("x2") = values[2];
  register long fourth __asm__("x3") = values[3];
  __asm__ volatile("svc 0" : "+r"(first) : "r"(call), "r"(second), "r"(third), "r"(fourth) : "memory");
  return first;
}
#else
#error "Warren runs on x86-64 and on 64-bit ARM."
#endif

/* Runs in the new process. Returns at the first failure of a step that must not fail; the process ends with that code. */
static int run_steps(void *steps) {
  for (struct step *step = steps;; step++) {
    long may_fail = step->result;
    step->result = system_call(step->number, step->values);
    if (step->result < 0 && step->result >= first_error && !may_fail) return exit_code_of_failure;
  }
}

/* Sets the signal mask by a system call, because the C library's function does not block the signals that it uses. */
static void exchange_signal_mask(const unsigned long *mask, unsigned long *before) {
  const long values[4] = {SIG_SETMASK, (long)mask, (long)before, sizeof(*mask)};
  system_call(SYS_rt_sigprocmask, values);
}

int start_process(struct step *steps, void *stack_end, int flags) {
  const unsigned long all = ~0UL;
  unsigned long before;
  /* Block all signals: before the new process has reset its handlers, a handler of the parent would run in it. */
  exchange_signal_mask(&all, &before);
  int pid = clone(run_steps, stack_end, CLONE_VM | SIGCHLD | flags, steps);
  int failure = errno;
  exchange_signal_mask(&before, 0);
  return pid < 0 ? -failure : pid;
}
