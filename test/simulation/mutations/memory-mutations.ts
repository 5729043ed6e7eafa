/** Faults of the guard of the memory, and of sandboxes that stand still, put in by hand. */
import type { Mutation } from './mutation.ts'

const search = { plan: { profile: 'used-up memory' } } as const

export const memoryMutations: Mutation[] = [
  {
    name: 'share not asked',
    fault: 'Whoever takes more memory stands still, also within its share.',
    edits: [
      {
        file: 'src/core/sandbox/capacity/memory-share.ts',
        from: 'if (bytes > 0 || wanted > 0) beyond.set(sandboxID, bytes)',
        to: 'beyond.set(sandboxID, bytes)',
      },
    ],
    search,
    finds: /^neighbour/,
    seed: 1,
  },
  {
    name: 'frozen for ever',
    fault: 'After a restart, whoever is found frozen stays so, though nothing is short.',
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
    seed: 5,
  },
  {
    name: 'route held for ever',
    fault: 'A sandbox that could not be made to stand still is said to do so from then on.',
    edits: [
      {
        file: 'src/core/sandbox/capacity/held-sandboxes.ts',
        from: 'if (isNew) routes.letGo(sandboxID, runID)',
        to: 'void isNew',
      },
    ],
    search,
    finds: /is said to stand still/,
    seed: 107,
  },
]
