import type { ProcessEventInit } from './events.ts'

const signalTexts: Record<string, string> = {
  SIGHUP: 'hangup',
  SIGINT: 'interrupt',
  SIGQUIT: 'quit',
  SIGILL: 'illegal instruction',
  SIGTRAP: 'trace/breakpoint trap',
  SIGABRT: 'aborted',
  SIGBUS: 'bus error',
  SIGFPE: 'floating point exception',
  SIGKILL: 'killed',
  SIGUSR1: 'user defined signal 1',
  SIGSEGV: 'segmentation fault',
  SIGUSR2: 'user defined signal 2',
  SIGPIPE: 'broken pipe',
  SIGALRM: 'alarm clock',
  SIGTERM: 'terminated',
  SIGXCPU: 'CPU time limit exceeded',
  SIGXFSZ: 'file size limit exceeded',
}

/** The end of a process, in the wording that clients know. */
export function endEvent(exitCode: number | null, signal: string | null): ProcessEventInit {
  const exited = exitCode !== null
  const status = exited ? `exit status ${exitCode}` : `signal: ${signalTexts[signal ?? ''] ?? signal}`
  return {
    event: {
      case: 'end',
      value: { exitCode: exitCode ?? -1, exited, status, ...(exitCode !== 0 && { error: status }) },
    },
  }
}
