/* Run by src/lib/native.test.ts, with sanitizers and without. Prints nothing and exits with 0 if all checks pass. */
#define _GNU_SOURCE
#include "start-process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition) \
  if (!(condition)) (fprintf(stderr, "line %d: %s\n", __LINE__, #condition), exit(1))

enum { stack_bytes = 64 * 1024, unused = 0xAA };
static unsigned char *stack;
static volatile sig_atomic_t handled;

static int start(struct step *steps, int flags) {
  memset(stack, unused, stack_bytes);
  return start_process(steps, stack + stack_bytes, flags);
}

/* The exit code, or minus the signal that ended the process. */
static int end_of(int pid) {
  int status;
  CHECK(waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void makes_each_step_and_keeps_its_result(void) {
  int ends[2];
  char read_back[4] = "";
  CHECK(pipe2(ends, O_CLOEXEC) == 0);
  struct step steps[] = {{SYS_write, {ends[1], (long)"one", 3, 0}, 0},
                         {SYS_getppid, {0}, 0},
                         {SYS_exit, {7}, 0}};
  CHECK(end_of(start(steps, CLONE_VFORK)) == 7);
  CHECK(steps[0].result == 3 && steps[1].result == getpid());
  CHECK(read(ends[0], read_back, 3) == 3 && strcmp(read_back, "one") == 0);
  close(ends[0]);
  close(ends[1]);
}

static void passes_four_values(void) {
  int file = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  char byte = 1;
  /* A file offset of 2^33 shows that the fourth value arrives, and arrives whole. */
  struct step steps[] = {{SYS_pread64, {file, (long)&byte, 1, 1L << 33}, 0}, {SYS_exit, {0}, 0}};
  CHECK(end_of(start(steps, CLONE_VFORK)) == 0);
  CHECK(steps[0].result == 1 && byte == 0);
  struct step refused[] = {{SYS_pread64, {file, (long)&byte, 1, -1}, 0}, {SYS_exit, {0}, 0}};
  CHECK(end_of(start(refused, CLONE_VFORK)) == 127 && refused[0].result == -EINVAL);
  close(file);
}

static void ends_at_the_first_failure_unless_that_may_happen(void) {
  struct step steps[] = {{SYS_chdir, {(long)"/nowhere"}, 1}, {SYS_close, {-1}, 0}, {SYS_exit, {7}, 0}};
  CHECK(end_of(start(steps, CLONE_VFORK)) == 127);
  CHECK(steps[0].result == -ENOENT && steps[1].result == -EBADF && steps[2].result == 0);
}

static void becomes_a_program(void) {
  char *words[] = {"sh", "-c", "exit 5", NULL}, *variables[] = {NULL};
  struct step steps[] = {{SYS_execve, {(long)"/bin/sh", (long)words, (long)variables}, 0}};
  CHECK(end_of(start(steps, CLONE_VFORK)) == 5);
  struct step missing[] = {{SYS_execve, {(long)"/nowhere", (long)words, (long)variables}, 0}};
  CHECK(end_of(start(missing, CLONE_VFORK)) == 127 && missing[0].result == -ENOENT);
}

static void count_signal(int signal) {
  (void)signal;
  handled += 1;
}

static void runs_beside_us_without_our_handlers(void) {
  int ends[2];
  char byte;
  CHECK(pipe2(ends, O_CLOEXEC) == 0);
  CHECK(signal(SIGUSR1, count_signal) != SIG_ERR);
  struct step steps[] = {{SYS_read, {ends[0], (long)&byte, 1}, 0}, {SYS_exit, {0}, 0}};
  int pid = start(steps, 0);
  CHECK(pid > 0 && waitpid(pid, NULL, WNOHANG) == 0);
  CHECK(kill(pid, SIGUSR1) == 0);
  CHECK(write(ends[1], "x", 1) == 1);
  CHECK(end_of(pid) == 0 && byte == 'x' && handled == 0);
  CHECK(raise(SIGUSR1) == 0 && handled == 1);
  close(ends[0]);
  close(ends[1]);
}

static void tells_why_there_is_no_process(void) {
  struct step steps[] = {{SYS_exit, {0}, 0}};
  sigset_t blocked;
  CHECK(start(steps, CLONE_THREAD) == -EINVAL && steps[0].result == 0);
  CHECK(sigprocmask(SIG_SETMASK, NULL, &blocked) == 0 && !sigismember(&blocked, SIGUSR1));
}

/* src/lib/call-list.ts gives it 1024 bytes. Code for sanitizers may use more. */
static void uses_little_of_its_stack(void) {
  struct step steps[] = {{SYS_chdir, {(long)"/nowhere"}, 1}, {SYS_exit, {0}, 0}};
  CHECK(end_of(start(steps, CLONE_VFORK)) == 0);
  int at = 0;
  while (at < stack_bytes && stack[at] == unused) at++;
  CHECK(at >= stack_bytes - MOST_STACK_BYTES);
}

int main(void) {
  stack = aligned_alloc(16, stack_bytes);
  CHECK(stack);
  makes_each_step_and_keeps_its_result();
  passes_four_values();
  ends_at_the_first_failure_unless_that_may_happen();
  becomes_a_program();
  runs_beside_us_without_our_handlers();
  tells_why_there_is_no_process();
  uses_little_of_its_stack();
  free(stack);
  return 0;
}
