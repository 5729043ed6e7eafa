/* Starts a process that makes a list of system calls, and becomes a program or ends. */
#ifndef START_PROCESS_H
#define START_PROCESS_H

/* src/lib/call-list.ts writes steps in this layout. */
struct step {
  long number;
  long values[4];
  /* Before the call: not 0 if it may fail. Afterwards: what the kernel returned, a negative error number on failure. */
  long result;
};

/*
 * Returns the process ID, or a negative error number. The last step must be `execve` or `exit`. `flags` are those of
 * clone(2): with CLONE_VFORK, the caller waits until the process has become a program or has ended. Steps and stack belong
 * to the new process until then.
 */
int start_process(struct step *steps, void *stack_end, int flags);

#endif
