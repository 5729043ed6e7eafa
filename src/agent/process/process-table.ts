import type { ProcessSelector } from '../../contract/rpc/process_pb.ts'
import { AppError } from '../../lib/app-error.ts'
import type { RunningProcess } from './running-process.ts'
import type { ProcessEventInit } from './subscription.ts'

const mostEndedKept = 1000

/** What is left of a process: little, since a thousand of them are kept. */
export type EndedProcess = { pid: number; tag: string | undefined; end: ProcessEventInit }

/** The processes started through the agent: those that run, and how the last thousand of the others ended. */
export class ProcessTable {
  #running = new Map<number, RunningProcess>()
  #ended = new Map<number, EndedProcess>()

  add(process: RunningProcess): void {
    // The kernel gives a pid again only after its last owner ended.
    this.#ended.delete(process.pid)
    this.#running.set(process.pid, process)
  }

  end({ pid, tag }: RunningProcess, end: ProcessEventInit): void {
    this.#running.delete(pid)
    this.#ended.set(pid, { pid, tag, end })
    if (this.#ended.size > mostEndedKept) this.#ended.delete(this.#ended.keys().next().value!)
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
