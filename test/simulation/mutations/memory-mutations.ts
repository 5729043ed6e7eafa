/** Faults of the memory guard and of frozen sandboxes, put in by hand. */
import type { Mutation } from './mutation.ts'

const search = { plan: { profile: 'used-up memory' } } as const

export const memoryMutations: Mutation[] = [
  {
    name: 'share not asked',
    fault: 'A sandbox that takes more memory is frozen even within its share.',
    edits: [
      {
        file: 'src/core/sandbox/capacity/memory-share.ts',
        from: 'if (bytes > 0 || wanted > 0) beyond.set(sandboxID, bytes)',
        to: 'beyond.set(sandboxID, bytes)',
      },
    ],
    search,
    finds: /^neighbour/,
  },
  {
    name: 'frozen for ever',
    fault: 'After a restart, a sandbox that is found frozen stays frozen although nothing is short.',
    edits: [
      {
        file: 'src/core/sandbox/capacity/held-sandboxes.ts',
        from: 'this.#shortages.filter(({ keepsFrozen }) => keepsFrozen())',
        to: 'this.#shortages',
      },
      {
        file: 'src/core/sandbox/capacity/held-sandboxes.ts',
        from: 'if (next) this.change(next.sandboxID',
        to: 'if (next && next.lately > 0) this.change(next.sandboxID',
      },
    ],
    search,
    finds: /is frozen/,
  },
  {
    name: 'route held for ever',
    fault: 'A sandbox that could not be frozen is recorded as frozen.',
    edits: [
      {
        file: 'src/core/sandbox/capacity/held-sandboxes.ts',
        from: 'if (isNew) routes.letGo(sandboxID, runID)',
        to: 'void isNew',
      },
    ],
    search,
    finds: /is recorded as frozen/,
  },
]
