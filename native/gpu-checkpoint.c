/*
 * Moves the GPU memory of another process to the host and back. gVisor runs this program inside a sandbox, as root of the
 * sandbox, before it takes a snapshot and after it has restored one:
 *   gpu-checkpoint --get-state --pid N   prints the state of process N; fails if the process does not use CUDA
 *   gpu-checkpoint --toggle --pid N      moves the GPU memory of a running process to the host, and else back
 * A start of Warren runs it once in a sandbox of its own if gVisor does not know the driver's version:
 *   gpu-checkpoint --compute             lets the GPU compute, and fails if the result is wrong
 *
 * The program has to run with every C library that the driver runs with. So it calls only functions of the C library that
 * never change, and links without the start files, which require the version that they were linked with.
 */
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

typedef int result;
enum { success = 0, invalid_value = 1 };
enum { running = 0, locked = 1, checkpointed = 2, failed = 3 };
/* Time for a process to finish its work on the GPU. */
enum { lock_timeout_ms = 120000 };
/* How long a process that was killed may take to end, in steps of a tenth of a second. */
enum { end_steps = 20, end_step_us = 100000 };

struct lock_args { unsigned timeout_ms, reserved0; unsigned long long reserved1[7]; };
struct other_args { unsigned long long reserved[8]; };

/* Functions of libcuda.so.1. Drivers before 570 lack the functions for checkpoints. */
extern result cuInit(unsigned flags);
extern result cuGetErrorString(result error, const char **text);
extern __attribute__((weak)) result cuCheckpointProcessGetState(int pid, int *state);
extern __attribute__((weak)) result cuCheckpointProcessLock(int pid, struct lock_args *args);
extern __attribute__((weak)) result cuCheckpointProcessCheckpoint(int pid, struct other_args *args);
extern __attribute__((weak)) result cuCheckpointProcessRestore(int pid, void *args);
extern __attribute__((weak)) result cuCheckpointProcessUnlock(int pid, struct other_args *args);

/* Every driver has these; the program also runs with libraries that stand for a driver in tests. */
extern __attribute__((weak)) result cuDeviceGet(int *device, int ordinal);
extern __attribute__((weak)) result cuDevicePrimaryCtxRetain(void **context, int device);
extern __attribute__((weak)) result cuDevicePrimaryCtxRelease_v2(int device);
extern __attribute__((weak)) result cuCtxSetCurrent(void *context);
extern __attribute__((weak)) result cuCtxSynchronize(void);
extern __attribute__((weak)) result cuMemAlloc_v2(unsigned long long *address, size_t bytes);
extern __attribute__((weak)) result cuMemFree_v2(unsigned long long address);
extern __attribute__((weak)) result cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t bytes);
extern __attribute__((weak)) result cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes);
extern __attribute__((weak)) result cuModuleLoadData(void **module, const void *image);
extern __attribute__((weak)) result cuModuleGetFunction(void **function, void *module, const char *name);
extern __attribute__((weak)) result cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                             unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **arguments,
                             void **extra);

static void write_all(int file, const char *text) {
  size_t length = 0;
  while (text[length]) length++;
  while (length > 0) {
    ssize_t written = write(file, text, length);
    if (written <= 0) return;
    text += written;
    length -= written;
  }
}

static void print(const char *text) { write_all(1, text); }

static int complain(const char *what, result error) {
  const char *text = NULL;
  print(what);
  if (cuGetErrorString(error, &text) == success && text) {
    print(": ");
    print(text);
  }
  print("\n");
  return 1;
}

static int same(const char *a, const char *b) {
  while (*a && *a == *b) a++, b++;
  return *a == *b;
}

/* Returns 0 if the text is not a process id. */
static int number(const char *text) {
  int value = 0;
  for (; *text; text++) {
    if (*text < '0' || *text > '9' || value > 100000000) return 0;
    value = value * 10 + (*text - '0');
  }
  return value;
}

enum { path_size = 48 };

/* Writes a path that contains the process id. */
static void path_of(char *path, const char *before, int pid, const char *after) {
  char digits[12];
  int length = 0;
  while (*before) *path++ = *before++;
  for (; pid > 0; pid /= 10) digits[length++] = '0' + pid % 10;
  while (length > 0) *path++ = digits[--length];
  while (*after) *path++ = *after++;
  *path = 0;
}

/*
 * While the host has GPU memory of a process, the sandbox uses more memory than it may have by itself, and the agent would kill
 * the process. These files tell it: one exists meanwhile, the other is written when the memory has been given back. /dev is in
 * memory, so they are part of the snapshot.
 */
static void touch(const char *path) {
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
  if (file < 0) return;
  write_all(file, "\n");
  close(file);
}

static void mark(int pid, int is_moved) {
  char path[path_size];
  path_of(path, "/dev/gpu-memory-", pid, "");
  if (is_moved) touch(path);
  else if (unlink(path) == 0) touch("/dev/gpu-memory-freed");
}

/* It was killed while its memory was moved: its memory went with it, and there is nothing left to do. */
static int has_ended(int pid) {
  char path[path_size], text[512] = {0};
  int file, end;
  path_of(path, "/proc/", pid, "/stat");
  file = open(path, O_RDONLY);
  if (file < 0) return 1;
  end = read(file, text, sizeof text - 2);
  close(file);
  /* The state follows the name, which stands in brackets and may contain any character. */
  while (end > 0 && text[end - 1] != ')') end--;
  return end <= 0 || text[end + 1] == 'Z' || text[end + 1] == 'X';
}

/* Without an answer here the whole sandbox would be lost, so it is worth a moment. */
static int ends_soon(int pid) {
  for (int step = 0; step < end_steps; step++) {
    if (has_ended(pid)) return 1;
    usleep(end_step_us);
  }
  return has_ended(pid);
}

static int to_host(int pid) {
  struct lock_args lock = {.timeout_ms = lock_timeout_ms};
  struct other_args other = {0};
  result error = cuCheckpointProcessLock(pid, &lock);
  if (error != success && has_ended(pid)) return 0;
  if (error != success) return complain("The GPU work of the process does not come to an end", error);
  mark(pid, 1);
  error = cuCheckpointProcessCheckpoint(pid, &other);
  if (error == success) return 0;
  mark(pid, 0);
  if (has_ended(pid)) return 0;
  complain("The driver cannot move the GPU memory of the process to the host", error);
  error = cuCheckpointProcessUnlock(pid, &other);
  if (error != success) complain("and cannot let the process go on", error);
  return 1;
}

/* The size in cuda.h of driver 580 and later; older drivers read no more than 64 bytes, which are all zero. */
static unsigned long long restore_args[64];

static int to_gpu(int pid, int state) {
  struct other_args other = {0};
  if (state == checkpointed) {
    result error = cuCheckpointProcessRestore(pid, restore_args);
    if (error != success && ends_soon(pid)) return 0;
    if (error != success) return complain("The driver cannot give the GPU memory back to the process", error);
  }
  result error = cuCheckpointProcessUnlock(pid, &other);
  mark(pid, 0);
  if (error == success || ends_soon(pid)) return 0;
  return complain("The driver cannot let the process go on", error);
}

enum { count = 256 };
static int numbers[count];

/* Doubles the number of each thread. The driver compiles it, as it compiles the kernels of most programs. */
static const char doubling[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry doubled(.param .u64 numbers) {\n"
    ".reg .b32 %r<3>; .reg .b64 %d<5>;\n"
    "ld.param.u64 %d1, [numbers]; cvta.to.global.u64 %d2, %d1;\n"
    "mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4; add.s64 %d4, %d2, %d3;\n"
    "ld.global.u32 %r2, [%d4]; add.s32 %r2, %r2, %r2; st.global.u32 [%d4], %r2; ret;\n}\n";

/* Each step is a call of its own to the driver in the kernel, whose form another version may have changed. */
static int compute(void) {
  void *context = NULL, *module = NULL, *function = NULL;
  unsigned long long address = 0;
  void *arguments[] = {&address};
  int device = 0;
  if (!cuDeviceGet || !cuLaunchKernel) return complain("The driver's library computes nothing", invalid_value);
  result error = cuInit(0);
  if (error != success) return complain("The GPU cannot be used", error);
  if ((error = cuDeviceGet(&device, 0)) != success) return complain("There is no GPU", error);
  if ((error = cuDevicePrimaryCtxRetain(&context, device)) != success || (error = cuCtxSetCurrent(context)) != success)
    return complain("No context on the GPU", error);
  if ((error = cuMemAlloc_v2(&address, sizeof numbers)) != success) return complain("No memory on the GPU", error);
  for (int i = 0; i < count; i++) numbers[i] = i + 1;
  if ((error = cuMemcpyHtoD_v2(address, numbers, sizeof numbers)) != success) return complain("No copy to the GPU", error);
  if ((error = cuModuleLoadData(&module, doubling)) != success ||
      (error = cuModuleGetFunction(&function, module, "doubled")) != success)
    return complain("The driver compiles no kernel", error);
  if ((error = cuLaunchKernel(function, 1, 1, 1, count, 1, 1, 0, NULL, arguments, NULL)) != success ||
      (error = cuCtxSynchronize()) != success)
    return complain("The GPU runs no kernel", error);
  if ((error = cuMemcpyDtoH_v2(numbers, address, sizeof numbers)) != success) return complain("No copy from the GPU", error);
  for (int i = 0; i < count; i++)
    if (numbers[i] != 2 * (i + 1)) return complain("The GPU computed something else", invalid_value);
  cuMemFree_v2(address);
  cuDevicePrimaryCtxRelease_v2(device);
  print("computed\n");
  return 0;
}

static int run(int argc, char **argv) {
  static const char *names[] = {"running\n", "locked\n", "checkpointed\n", "failed\n"};
  int pid = 0, toggles = 0, state = running;
  if (argc == 2 && same(argv[1], "--compute")) return compute();
  for (int i = 1; i < argc; i++) {
    if (same(argv[i], "--toggle")) toggles = 1;
    else if (same(argv[i], "--pid") && i + 1 < argc) pid = number(argv[++i]);
    else if (!same(argv[i], "--get-state")) return complain(argv[i], invalid_value);
  }
  if (pid == 0) return complain("--pid", invalid_value);
  result error = cuInit(0);
  if (error != success) return complain("The GPU cannot be used", error);
  if (!cuCheckpointProcessGetState || !cuCheckpointProcessLock || !cuCheckpointProcessCheckpoint ||
      !cuCheckpointProcessRestore || !cuCheckpointProcessUnlock) {
    print("The driver cannot save GPU memory: version 570 and later can\n");
    return 1;
  }
  error = cuCheckpointProcessGetState(pid, &state);
  if (error != success && toggles && ends_soon(pid)) return 0;
  if (error != success) return complain("The state of the process cannot be read", error);
  if (!toggles) {
    print(state >= running && state <= failed ? names[state] : "unknown\n");
    return 0;
  }
  if (state == running) return to_host(pid);
  if (state == failed && ends_soon(pid)) return 0;
  if (state == failed) {
    print("An earlier move of its GPU memory failed, and the process cannot use the GPU any more\n");
    return 1;
  }
  return to_gpu(pid, state);
}

#include "no-start-files.h"
