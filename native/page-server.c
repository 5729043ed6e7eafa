/*
 * Serves one file whose blocks arrive while it is read: the memory of a sandbox that is resumed from an object store.
 *   page-server FOLDER BYTES
 * In FOLDER it creates `pages.data` of that length, into which Warren writes blocks, the socket `pages.sock`, and the link
 * `memory/pages.img` to a file that this program serves by FUSE. A read of that file waits until all its blocks are there.
 *
 * Whoever connects to the socket first gets one byte for each block (1: it is there). After that the program sends the
 * number of each block that a read waits for, and 0xffffffff when the last reader has closed the file; it receives the number
 * of each block that is complete in `pages.data`. A later connection replaces an earlier one. All numbers have four bytes.
 *
 * The program returns when everything is in place, and a process of its own goes on. That does not depend on Warren: while
 * nobody is connected, reads wait. It ends when nobody is connected and nobody has the file open. It never answers a read
 * with an error, except to a thread that is being killed, which could not end otherwise.
 *
 * It has to run with every C library that Node runs with. So it calls only functions of the C library that never change,
 * and links without the start files, which require the version that they were linked with.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/mount.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

enum { block_bytes = 2 << 20, most_blocks = 1 << 20 };
enum { most_read_bytes = 1 << 20, most_waiting = 4096, request_bytes = 64 << 10 };
enum { connect_limit_ms = 60000, look_ms = 500, sigkill_bit = 1 << 8 };
#define file_mode 0100400
#define file_mode_text "100400"
#define closed_mark 0xffffffffu

struct waiting_read { uint64_t unique, offset; uint32_t bytes, pid; };

static struct waiting_read waiting[most_waiting];
static int waiting_count;
static uint8_t is_there[most_blocks], is_told[most_blocks];
static char content[most_read_bytes], request[request_bytes];
static uint64_t file_bytes;
static uint32_t block_count;
static int fuse = -1, root = -1, data = -1, listener = -1, client = -1;
static int open_count, tell_closed;

static size_t length_of(const char *text) {
  size_t length = 0;
  while (text[length]) length++;
  return length;
}

static int fail(const char *what) {
  char digits[12], *digit = digits + sizeof digits;
  int rest = errno;
  *--digit = '\n';
  do *--digit = '0' + rest % 10; while (rest /= 10);
  struct iovec parts[] = {{(char *)what, length_of(what)}, {": error ", 8}, {digit, digits + sizeof digits - digit}};
  ssize_t written = writev(2, parts, 3);
  return written < 0 ? 2 : 1;
}

/* Appends the text at the end and returns the new end. */
static char *append(char *end, const char *text) {
  while (*text) *end++ = *text++;
  *end = 0;
  return end;
}

static char *append_number(char *end, uint64_t value) {
  char digits[20];
  int length = 0;
  do digits[length++] = '0' + value % 10; while (value /= 10);
  while (length > 0) *end++ = digits[--length];
  *end = 0;
  return end;
}

static int reply(uint64_t unique, int error, const void *body, size_t bytes) {
  struct fuse_out_header header = {.len = sizeof header + bytes, .error = -error, .unique = unique};
  struct iovec parts[] = {{&header, sizeof header}, {(void *)body, bytes}};
  return writev(fuse, parts, bytes > 0 ? 2 : 1) >= 0;
}

/* Returns the number of bytes that the file has there, at most those that were asked for. */
static uint32_t bytes_at(uint64_t offset, uint32_t wanted) {
  if (offset >= file_bytes) return 0;
  if (wanted > most_read_bytes) wanted = most_read_bytes;
  return file_bytes - offset < wanted ? file_bytes - offset : wanted;
}

/* Returns the first block that a read lacks, or `block_count`. */
static uint32_t missing_block(const struct waiting_read *read) {
  uint32_t bytes = bytes_at(read->offset, read->bytes);
  if (bytes == 0) return block_count;
  uint32_t last = (read->offset + bytes - 1) / block_bytes;
  for (uint32_t block = read->offset / block_bytes; block <= last; block++)
    if (!is_there[block]) return block;
  return block_count;
}

/* False if the disk cannot be read: the read then waits and is tried again. */
static int answer(const struct waiting_read *read) {
  uint32_t bytes = bytes_at(read->offset, read->bytes), done = 0;
  while (done < bytes) {
    ssize_t got = pread(data, content + done, bytes - done, read->offset + done);
    if (got <= 0) return 0;
    done += got;
  }
  reply(read->unique, 0, content, bytes);
  return 1;
}

static void answer_complete(void) {
  int kept = 0;
  for (int i = 0; i < waiting_count; i++) {
    struct waiting_read read = waiting[i];
    if (missing_block(&read) < block_count || !answer(&read)) waiting[kept++] = read;
  }
  waiting_count = kept;
}

/* True if the thread was killed, or is gone. It shows a pending SIGKILL until its read returns. */
static int is_dying(uint32_t pid) {
  char path[40], text[2048];
  append(append_number(append(path, "/proc/"), pid), "/status");
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return errno == ENOENT;
  ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  static const char name[] = "\nSigPnd:\t";
  enum { digits = 16, prefix = sizeof name - 1 };
  for (ssize_t at = 0; at + prefix + digits <= length; at++) {
    int same = 0;
    while (same < prefix && text[at + same] == name[same]) same++;
    if (same < prefix) continue;
    char third = text[at + prefix + digits - 3];
    return ((third <= '9' ? third - '0' : third - 'a' + 10) << 8 & sigkill_bit) != 0;
  }
  return 0;
}

/* Threads that are being killed cannot end before their reads are answered. */
static void release_dying(void) {
  int kept = 0;
  for (int i = 0; i < waiting_count; i++) {
    if (is_dying(waiting[i].pid)) reply(waiting[i].unique, EINTR, NULL, 0);
    else waiting[kept++] = waiting[i];
  }
  waiting_count = kept;
}

/* The number of bytes of an incomplete number that were received. */
static size_t kept_bytes;

static void disconnect(void) {
  close(client);
  client = -1;
  kept_bytes = 0;
}

/* False if the other side does not take the number now. */
static int send_number(uint32_t number) {
  ssize_t sent = client < 0 ? -1 : send(client, &number, sizeof number, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent == (ssize_t)sizeof number) return 1;
  /* A stream never takes a part of four bytes in practice; if it did, the numbers after it would be wrong. */
  if (client >= 0 && (sent >= 0 || (errno != EAGAIN && errno != EINTR))) disconnect();
  return 0;
}

/* Tells which blocks are waited for, each once for each connection. */
static void tell_wanted(void) {
  for (int i = 0; i < waiting_count && client >= 0; i++) {
    uint32_t bytes = bytes_at(waiting[i].offset, waiting[i].bytes);
    if (bytes == 0) continue;
    uint32_t last = (waiting[i].offset + bytes - 1) / block_bytes;
    for (uint32_t block = waiting[i].offset / block_bytes; block <= last; block++) {
      if (is_there[block] || is_told[block]) continue;
      if (!send_number(block)) return;
      is_told[block] = 1;
    }
  }
  if (tell_closed && client >= 0 && send_number(closed_mark)) tell_closed = 0;
}

static void init(const struct fuse_in_header *header, const struct fuse_init_in *in) {
  struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION};
  out.flags = in->flags & FUSE_MAX_PAGES;
  /* A page has 4, 16 or 64 kB. */
  out.max_pages = most_read_bytes / getpagesize();
  out.max_write = 4096;
  out.time_gran = 1;
  if (in->minor < out.minor) out.minor = in->minor;
  reply(header->unique, 0, &out, sizeof out);
}

static void handle(const struct fuse_in_header *header) {
  const void *body = header + 1;
  struct fuse_attr_out attributes = {.attr_valid = 1 << 30, .attr = {.ino = FUSE_ROOT_ID, .mode = file_mode, .nlink = 1}};
  struct fuse_open_out opened = {.open_flags = FOPEN_DIRECT_IO};
  switch (header->opcode) {
  case FUSE_INIT:
    init(header, body);
    return;
  case FUSE_GETATTR:
    attributes.attr.size = file_bytes;
    attributes.attr.blocks = file_bytes / 512;
    attributes.attr.blksize = 4096;
    reply(header->unique, 0, &attributes, sizeof attributes);
    return;
  case FUSE_OPEN:
    if (reply(header->unique, 0, &opened, sizeof opened)) open_count++;
    return;
  case FUSE_RELEASE:
    reply(header->unique, 0, NULL, 0);
    if (--open_count == 0) tell_closed = 1;
    return;
  case FUSE_READ: {
    const struct fuse_read_in *in = body;
    struct waiting_read read = {header->unique, in->offset, in->size, header->pid};
    if (missing_block(&read) < block_count || !answer(&read)) waiting[waiting_count++] = read;
    return;
  }
  case FUSE_INTERRUPT:
    release_dying();
    return;
  case FUSE_FORGET:
  case FUSE_BATCH_FORGET:
    return;
  case FUSE_FLUSH:
    reply(header->unique, 0, NULL, 0);
    return;
  default:
    reply(header->unique, ENOSYS, NULL, 0);
  }
}

/* False if the connection to the kernel is gone. */
static int take_requests(void) {
  while (waiting_count < most_waiting) {
    ssize_t got = read(fuse, request, sizeof request);
    if (got < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOENT)) return 1;
    if (got < (ssize_t)sizeof(struct fuse_in_header)) return 0;
    handle((const struct fuse_in_header *)request);
  }
  return 1;
}

static void take_numbers(void) {
  static uint8_t text[4096];
  for (;;) {
    ssize_t got = recv(client, text + kept_bytes, sizeof text - kept_bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
      disconnect();
      return;
    }
    size_t length = kept_bytes + got, at = 0;
    for (; at + 4 <= length; at += 4) {
      uint32_t block = text[at] | text[at + 1] << 8 | text[at + 2] << 16 | (uint32_t)text[at + 3] << 24;
      if (block < block_count) is_there[block] = 1;
    }
    kept_bytes = length - at;
    for (size_t i = 0; i < kept_bytes; i++) text[i] = text[at + i];
    answer_complete();
  }
}

static void accept_client(void) {
  int next = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  if (next < 0) return;
  if (client >= 0) disconnect();
  client = next;
  for (uint32_t i = 0; i < block_count; i++) is_told[i] = 0;
  /* Waits for the reader, which asked for this. */
  for (uint32_t at = 0; at < block_count && client >= 0;) {
    ssize_t sent = send(client, is_there + at, block_count - at, MSG_NOSIGNAL);
    if (sent > 0) at += sent;
    else if (errno != EINTR) disconnect();
  }
}

/* Makes the file without a mount point: only its descriptor, which becomes `root`, leads to it. */
static int mount_file(void) {
  char number[24];
  fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (fuse < 0) return fail("/dev/fuse");
  int context = syscall(SYS_fsopen, "fuse", FSOPEN_CLOEXEC);
  if (context < 0) return fail("fsopen");
  append_number(number, fuse);
  const char *settings[][2] = {{"fd", number}, {"rootmode", file_mode_text}, {"user_id", "0"}, {"group_id", "0"}};
  for (int i = 0; i < 4; i++)
    if (syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, settings[i][0], settings[i][1], 0) != 0)
      return fail(settings[i][0]);
  /* The kernel of a sandbox runs as another user. Only descriptors lead to the file, so nobody else can use this. */
  if (syscall(SYS_fsconfig, context, FSCONFIG_SET_FLAG, "allow_other", NULL, 0) != 0) return fail("allow_other");
  if (syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) != 0) return fail("fsconfig");
  root = syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
  if (root < 0) return fail("fsmount");
  close(context);
  return 0;
}

/* Returns the exit code, or -1 in the new process. */
static int go_on_alone(void) {
  char link[64];
  long pid = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
  if (pid < 0) return fail("clone");
  if (pid == 0) return -1;
  append_number(append(append_number(append(link, "/proc/"), pid), "/fd/"), root);
  if (symlink(link, "memory/pages.img") == 0) return 0;
  int failed = fail("memory/pages.img");
  kill(pid, SIGKILL);
  return failed;
}

static int prepare(const char *folder, const char *bytes) {
  struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "pages.sock"};
  for (; *bytes >= '0' && *bytes <= '9' && file_bytes < 1ull << 60; bytes++) file_bytes = file_bytes * 10 + (*bytes - '0');
  errno = EINVAL;
  if (*bytes || file_bytes == 0 || file_bytes > (uint64_t)block_bytes * most_blocks) return fail("the number of bytes");
  block_count = (file_bytes + block_bytes - 1) / block_bytes;
  if (chdir(folder) != 0) return fail("the folder");
  data = open("pages.data", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (data < 0 || ftruncate(data, file_bytes) != 0) return fail("pages.data");
  listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0 || bind(listener, (struct sockaddr *)&name, sizeof name) != 0 || listen(listener, 4) != 0)
    return fail("pages.sock");
  return mount_file();
}

static int run(int argc, char **argv) {
  errno = EINVAL;
  if (argc != 3) return fail("page-server FOLDER BYTES");
  int failed = prepare(argv[1], argv[2]);
  if (failed || (failed = go_on_alone()) >= 0) return failed;
  setsid();
  /* The folder may be removed or unmounted meanwhile. */
  if (chdir("/") != 0) return fail("/");
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int i = 0; i < 3; i++) dup2(null, i);
  for (int was_used = 0;;) {
    struct pollfd events[] = {
        {.fd = waiting_count < most_waiting ? fuse : -1, .events = POLLIN},
        {.fd = listener, .events = POLLIN},
        {.fd = client, .events = POLLIN},
    };
    int count = poll(events, 3, waiting_count > 0 ? look_ms : was_used ? -1 : connect_limit_ms);
    if (count < 0 && errno != EINTR) return fail("poll");
    if (count == 0 && waiting_count == 0) break;
    if (count == 0) {
      release_dying();
      answer_complete();
    }
    if (events[0].revents && !take_requests()) break;
    if (events[2].revents && client >= 0) take_numbers();
    if (events[1].revents) accept_client();
    tell_wanted();
    was_used = was_used || client >= 0 || open_count > 0;
    if (was_used && client < 0 && open_count == 0) break;
  }
  return 0;
}

#include "no-start-files.h"
