/**
 * The system calls that a sandbox under runc may make; all others fail with EPERM. Excluded on purpose:
 * mounts and namespaces, modules, kexec, bpf, perf, io_uring, keyrings, userfaultfd, fanotify, file handles,
 * clocks, swap, and hardware access. 32-bit programs are not supported: their socketcall hides the socket
 * family from the filter.
 */

type Rule = {
  names: string[]
  action: 'SCMP_ACT_ALLOW' | 'SCMP_ACT_ERRNO'
  errnoRet?: number
  args?: { index: number; value: number; valueTwo?: number; op: 'SCMP_CMP_EQ' | 'SCMP_CMP_MASKED_EQ' }[]
}

const words = (text: string): string[] => text.split(/\s+/).filter(Boolean)

const files = words(`
  access faccessat faccessat2 open openat openat2 creat close close_range read readv pread64 preadv preadv2
  write writev pwrite64 pwritev pwritev2 lseek dup dup2 dup3 fcntl flock ioctl truncate ftruncate fallocate
  stat lstat fstat newfstatat statx statfs fstatfs ustat getdents getdents64 getcwd chdir fchdir chroot
  mkdir mkdirat rmdir link linkat unlink unlinkat symlink symlinkat readlink readlinkat rename renameat
  renameat2 mknod mknodat chmod fchmod fchmodat fchmodat2 chown lchown fchown fchownat umask utime utimes
  utimensat futimesat setxattr lsetxattr fsetxattr setxattrat getxattr lgetxattr fgetxattr getxattrat
  listxattr llistxattr flistxattr listxattrat removexattr lremovexattr fremovexattr removexattrat sync syncfs
  fsync fdatasync sync_file_range fadvise64 readahead copy_file_range sendfile splice tee vmsplice pipe pipe2
  name_to_handle_at inotify_init inotify_init1 inotify_add_watch inotify_rm_watch cachestat`)

const waiting = words(`
  poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_wait epoll_wait_old
  epoll_pwait epoll_pwait2 eventfd eventfd2 signalfd signalfd4 timerfd_create timerfd_settime timerfd_gettime
  pause restart_syscall`)

/** Their contexts come from one pool of the machine that no limit of a sandbox divides. */
const asynchronousIO = words('io_setup io_destroy io_submit io_cancel io_getevents io_pgetevents')

const memory = words(`
  brk mmap mprotect munmap mremap madvise process_madvise msync mincore mlock mlock2 mlockall munlock
  munlockall remap_file_pages memfd_create memfd_secret pkey_alloc pkey_free pkey_mprotect mseal
  map_shadow_stack membarrier process_mrelease`)

const processes = words(`
  fork vfork execve execveat exit exit_group wait4 waitid kill tkill tgkill pidfd_open pidfd_getfd
  pidfd_send_signal getpid getppid gettid getpgid getpgrp setpgid getsid setsid set_tid_address
  set_robust_list get_robust_list futex futex_waitv futex_wake futex_wait futex_requeue rseq arch_prctl prctl
  set_thread_area get_thread_area ptrace process_vm_readv process_vm_writev seccomp landlock_create_ruleset
  landlock_add_rule landlock_restrict_self rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo
  rt_tgsigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait sigaltstack alarm getitimer setitimer
  sched_yield sched_getaffinity sched_setaffinity sched_getattr sched_setattr sched_getparam sched_setparam
  sched_getscheduler sched_setscheduler sched_get_priority_max sched_get_priority_min sched_rr_get_interval
  getpriority setpriority ioprio_get ioprio_set getrlimit setrlimit prlimit64 getrusage times getcpu uname
  sysinfo`)

const identities = words(`
  getuid geteuid getgid getegid getresuid getresgid getgroups setuid setgid setreuid setregid setresuid
  setresgid setfsuid setfsgid setgroups capget capset`)

const time = words(`
  time gettimeofday clock_gettime clock_getres clock_nanosleep nanosleep timer_create timer_delete
  timer_getoverrun timer_gettime timer_settime`)

const networking = words(`
  socketpair bind listen accept accept4 connect getsockname getpeername getsockopt setsockopt shutdown
  sendto sendmsg sendmmsg recvfrom recvmsg recvmmsg`)

const ipc = words(`
  mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr msgctl msgget msgrcv msgsnd semctl
  semget semop semtimedop shmat shmctl shmdt shmget`)

const randomness = words('getrandom')

/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. */
const newNamespaceFlags = 0x7e020000
/** AF_UNIX, AF_INET, AF_INET6, AF_NETLINK. */
const socketFamilies = [1, 2, 10, 16]
/** Linux, its 32-bit address limit and old-style address layout, and the value that only queries. */
const personalities = [0x0, 0x8, 0x20000, 0x20008, 0xffffffff]

const errno = { ENOSYS: 38, EPERM: 1 }

const allow = (names: string[], args?: Rule['args']): Rule => ({
  names,
  action: 'SCMP_ACT_ALLOW',
  ...(args && { args }),
})

const noNewNamespace: Rule['args'] = [
  { index: 0, value: newNamespaceFlags, valueTwo: 0, op: 'SCMP_CMP_MASKED_EQ' },
]

export const seccompProfile = {
  defaultAction: 'SCMP_ACT_ERRNO',
  defaultErrnoRet: errno.EPERM,
  architectures: [process.arch === 'arm64' ? 'SCMP_ARCH_AARCH64' : 'SCMP_ARCH_X86_64'],
  syscalls: [
    allow([
      ...files,
      ...waiting,
      ...memory,
      ...processes,
      ...identities,
      ...time,
      ...networking,
      ...ipc,
      ...randomness,
    ]),
    allow(['clone', 'unshare'], noNewNamespace),
    // The flags of clone3 are behind a pointer that no filter can follow: libraries fall back to clone, and
    // from asynchronous to ordinary reads and writes.
    { names: ['clone3', ...asynchronousIO], action: 'SCMP_ACT_ERRNO', errnoRet: errno.ENOSYS },
    ...socketFamilies.map((family) => allow(['socket'], [{ index: 0, value: family, op: 'SCMP_CMP_EQ' }])),
    ...personalities.map((value) => allow(['personality'], [{ index: 0, value, op: 'SCMP_CMP_EQ' }])),
  ] satisfies Rule[],
}
