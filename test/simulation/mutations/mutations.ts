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
  /** The violation that it leads to. */
  finds: RegExp
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
    search: { plan: { mishaps: [] } },
    finds: /^lifetime: /,
  },
  {
    name: 'pause forgotten',
    fault: 'One store error at the end of a pause is taken for a failed snapshot, and the only copy is lost.',
    edits: [
      {
        file: 'src/core/sandbox/retrying-store.ts',
        from: 'move(at, to, changes) {\n',
        to: "move(at, to, changes) {\n      if (to === 'paused') return store.move(at, to, changes, { moveID: newUUID(), at: clock.now() })\n",
      },
      {
        file: 'src/core/sandbox/pauser.ts',
        from: 'return this.#markPaused(row, snapshot)\n',
        to: 'return this.#markPaused(row, snapshot).catch(async (error) => { await this.#goOn(row, {}); throw error })\n',
      },
    ],
    search: { plan: { mishaps: [], storeFails: 0.2 } },
    finds: /was running and ended as lost/,
  },
  {
    name: 'an end that is not told',
    fault: 'A sandbox that was paused ends without an event.',
    edits: [{ file: 'src/core/event/event.ts', from: "  'paused killing': 'killed',\n", to: '' }],
    search: { plan: { mishaps: [] } },
    finds: /was never told as killed/,
  },
  {
    name: 'unreadable snapshot',
    fault: 'A snapshot that cannot be read once counts as none, and its paused sandbox ends.',
    search: { plan: { mishaps: ['unreadable'] }, history: { absentReads: { findSnapshot: undefined } } },
    finds: /was paused and ended as lost/,
  },
  {
    name: 'unreadable records',
    fault:
      'With no file descriptors left, the records of sandboxes read as absent, and all that runs ends as lost.',
    search: { plan: { mishaps: ['unreadable'] }, history: { absentReads: { recover: 'gone', list: [] } } },
    finds: /was running and ended as lost/,
  },
  {
    name: 'rows without an owner',
    fault: "Two Warrens on one database end each other's sandboxes.",
    search: { plan: { nodes: 2, mishaps: [] }, history: { oneOwner: true } },
    finds: /ended as lost/,
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
    finds: /^failed create: /,
  },
]
