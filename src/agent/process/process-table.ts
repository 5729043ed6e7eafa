import type { ProcessSelector } from '../../contract/rpc/process_pb.ts'
import { AppError } from '../../lib/app-error.ts'
import type { ProcessOwner, Remains, RunningProcess } from './running-process.ts'
import type { TailBudget } from './tail.ts'

const maxEnded = 1000
/** Limit for the stored output of all running and ended processes together. */
const maxTailBytes = 4 * 1024 * 1024

export type EndedProcess = { pid: number; tag: string | undefined } & Remains

/**
 * The processes started through the agent: the running ones, and what remains of the last thousand others.
 */
export class ProcessTable implements ProcessOwner {
  #running = new Map<number, RunningProcess>()
  /** In the order in which they ended. */
  #ended = new Map<number, EndedProcess>()
  #tailBytes = 0
  readonly budget: TailBudget = {
    reserve: (bytes) => {
      this.#freeTails(bytes)
      if (this.#tailBytes + bytes > maxTailBytes) return false
      this.#tailBytes += bytes
      return true
    },
    give: (bytes) => {
      this.#tailBytes -= bytes
    },
  }

  add(process: RunningProcess): void {
    // The kernel reuses a pid only after its last owner has ended.
    this.#forget(process.pid)
    this.#running.set(process.pid, process)
  }

  ended(process: RunningProcess, remains: Remains): void {
    const { pid, tag } = process
    // The end may be reported so late, to a slow reader, that another process has the pid by now.
    if (this.#running.get(pid) === process) this.#running.delete(pid)
    this.#ended.set(pid, { pid, tag, ...remains })
    if (this.#ended.size > maxEnded) this.#forget(this.#ended.keys().next().value!)
  }

  running(): RunningProcess[] {
    return [...this.#running.values()]
  }

  find(selector: ProcessSelector | undefined): RunningProcess {
    return select(selector, this.running())
  }

  /** Also finds a process that has ended, as long as it is remembered. */
  findOrEnded(selector: ProcessSelector | undefined): RunningProcess | EndedProcess {
    return select(selector, [...this.#ended.values(), ...this.running()])
  }

  /** Drops the output of the processes that ended first; their end events stay. */
  #freeTails(bytes: number): void {
    for (const process of this.#ended.values()) {
      if (this.#tailBytes + bytes <= maxTailBytes) return
      this.#dropTails(process)
    }
  }

  #forget(pid: number): void {
    const process = this.#ended.get(pid)
    if (!process) return
    this.#dropTails(process)
    this.#ended.delete(pid)
  }

  #dropTails(process: EndedProcess): void {
    for (const { bytes } of process.tails) this.#tailBytes -= bytes.length
    process.tails = []
  }
}

function select<T extends { pid: number; tag: string | undefined }>(
  selector: ProcessSelector | undefined,
  among: T[],
): T {
  const wanted = selector?.selector
  if (!wanted || wanted.case === undefined) {
    throw new AppError('invalid_argument', 'no process selected: give a pid or a tag')
  }
  const found = among.findLast((process) => process[wanted.case] === wanted.value)
  if (!found) throw new AppError('not_found', `process with ${wanted.case} ${wanted.value} not found`)
  return found
}
