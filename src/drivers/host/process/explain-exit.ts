/** Explains why a sandbox ended, from the status of its first process and the kernel's counters. */
import { constants } from 'node:os'
import type { SandboxExit } from '../../../core/ports/driver.ts'

/** Programs that start others, including init and gVisor, pass a signal on as a status above this. */
const signalBase = 128

/** Resources that the host's kernel rejected shortly before the end. `processes` is set only if that ends a sandbox. */
type KernelShortage = { memory: boolean; processes: boolean }

/** `status` as `wait` returns it; undefined if unknown. */
export function explainExit(
  status: number | undefined,
  short: KernelShortage,
): Pick<SandboxExit, 'reason' | 'detail'> {
  const exitCode = status === undefined ? undefined : (status >> 8) & 0xff
  const ownSignal = status === undefined ? 0 : status & 0x7f
  const signal = ownSignal || (exitCode && exitCode > signalBase ? exitCode - signalBase : 0)
  if (short.memory && (status === undefined || signal === constants.signals.SIGKILL)) {
    return { reason: 'out_of_memory', detail: 'The kernel ended it because it used more memory than it has.' }
  }
  if (short.processes && signal !== constants.signals.SIGTERM) {
    return {
      reason: 'crashed',
      detail: 'It needed more processes and threads of the server than it may have.',
    }
  }
  if (status === undefined) {
    return { reason: 'crashed', detail: 'Its processes have ended; the kernel does not say how.' }
  }
  if (signal > 0) {
    const who = ownSignal ? 'first process' : 'agent'
    const detail = `Its ${who} was ended by ${nameOf(signal)}.`
    return { reason: isFromOutside(ownSignal, signal) ? 'killed' : 'crashed', detail }
  }
  return { reason: 'crashed', detail: `Its first process exited with status ${exitCode}.` }
}

/**
 * Init passes a SIGTERM on to the agent. It cannot pass on a SIGKILL: one that ended the agent came from
 * inside the sandbox.
 */
const isFromOutside = (ownSignal: number, signal: number): boolean =>
  signal === constants.signals.SIGTERM || ownSignal === constants.signals.SIGKILL

const nameOf = (signal: number): string =>
  Object.entries(constants.signals).find(([, number]) => number === signal)?.[0] ?? `signal ${signal}`
