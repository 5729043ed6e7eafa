/**
 * Faults that Warren once had, put back in by hand: the proof that the simulation would find them again. An edit
 * replaces a text that a source file holds exactly once; when the code changes, the edit is adapted to it.
 */
import type { SearchOptions } from '../search.ts'

export type Mutation = {
  name: string
  /** What went wrong with it. */
  fault: string
  edits?: { file: string; from: string; to: string }[]
  search?: SearchOptions
  /** How many histories at most until it is found. */
  within: number
}

const withoutRetries = {
  file: 'src/app/domain.ts',
  from: 'retryingSandboxStore(ports.stores.sandboxes, clock)',
  to: 'ports.stores.sandboxes',
}

export const mutations: Mutation[] = [
  {
    name: 'unfenced expiry',
    fault:
      'A set-timeout or a pause that was answered after the expiry had listed the sandbox is ended all the same.',
    edits: [
      {
        file: 'src/core/sandbox/expiry.ts',
        from: "endAsSeen(row, 'timeout')",
        to: "end(row.sandboxID, 'timeout')",
      },
    ],
    within: 400,
  },
  {
    name: 'pause forgotten',
    fault: 'One store error at the end of a pause is taken for a failed snapshot, and the only copy is lost.',
    edits: [
      withoutRetries,
      {
        file: 'src/core/sandbox/pauser.ts',
        from: 'return this.#markPaused(row, snapshot)\n',
        to: 'return this.#markPaused(row, snapshot).catch(async (error) => { await this.#goOn(row, {}); throw error })\n',
      },
    ],
    within: 400,
  },
  {
    name: 'unreadable snapshot',
    fault: 'A snapshot that cannot be read once counts as none, and its paused sandbox ends.',
    search: { history: { absentReads: { findSnapshot: undefined } } },
    within: 400,
  },
  {
    name: 'unreadable records',
    fault:
      'With no file descriptors left, the records of sandboxes read as absent, and all that runs ends as lost.',
    search: { history: { absentReads: { recover: 'gone', list: [] } } },
    within: 400,
  },
  {
    name: 'counter awaited',
    fault: 'A create fails because of a counter, after its sandbox runs.',
    edits: [
      {
        file: 'src/core/sandbox/creator.ts',
        from: 'spawns.count(row.templateID, startedAt)',
        to: 'await this.#parts.templates.recordSpawns(row.templateID, 1, startedAt)',
      },
    ],
    within: 400,
  },
]
