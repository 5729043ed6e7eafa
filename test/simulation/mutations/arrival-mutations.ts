/** Faults of sandboxes that run while their memory arrives from the object store, put in by hand. */
import type { Mutation } from './mutation.ts'

const search = { plan: { nodes: 3, profile: 'early resumes' } } as const

export const arrivalMutations: Mutation[] = [
  {
    name: 'sweep of what arrives',
    fault: 'The sweep of the object store removes a pack from which memory still arrives.',
    edits: [
      {
        file: 'src/store/objects/remote-bytes.ts',
        from: 'for (const from of [arrivesFrom, storedFrom])',
        to: 'for (const from of [storedFrom, arrivesFrom].slice(0, 1))',
      },
    ],
    search,
    finds: /^pack needed: .* still reads it, is removed/,
  },
  {
    name: 'returned in a new run',
    fault: 'A sandbox that is gone before its memory has arrived stays in the run of its resume.',
    edits: [
      {
        file: 'src/core/sandbox/verbs/arrivals.ts',
        from: `      runID: stored.runID,
      stored,`,
        to: '      stored,',
      },
    ],
    search,
    finds: /^pack needed: .* is marked/,
  },
  {
    name: 'lost while it arrived',
    fault: 'A sandbox that is gone before its memory has arrived ends, though the object store has it.',
    edits: [
      {
        file: 'src/core/sandbox/reconciler.ts',
        from: 'if (!mayReturn || !(await upkeep.returnToStored(row, detail ?? reason)))',
        to: 'if (mayReturn || detail !== undefined || !mayReturn)',
      },
    ],
    search,
    finds: /^pack needed: .* though the object store has it/,
  },
  {
    name: 'paused before it arrived',
    fault: 'A pause takes a snapshot of memory that has not arrived.',
    edits: [
      {
        file: 'src/core/sandbox/verbs/pauser.ts',
        from: 'await this.#parts.arrivals.require(row, signal)',
        to: 'void signal',
      },
    ],
    search,
    finds: /had not arrived/,
  },
]
