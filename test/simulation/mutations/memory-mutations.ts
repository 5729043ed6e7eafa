/** Faults of the memory guard and of frozen sandboxes, put in by hand. */
import type { Mutation } from './mutation.ts'

const search = { plan: { profile: 'used-up memory' } } as const

export const memoryMutations: Mutation[] = [
  {
    name: 'share not asked',
    fault: 'A team is asked to give back memory even below its fair share.',
    edits: [
      {
        file: 'src/core/sandbox/capacity/team-share.ts',
        from: 'const isAbove = team.usedBytes > minBytes',
        to: 'const isAbove = team.usedBytes >= 0',
      },
      {
        file: 'src/core/sandbox/capacity/team-share.ts',
        from: 'Math.max(0, team.soonBytes - level)',
        to: 'Math.max(1, team.soonBytes)',
      },
      {
        file: 'src/core/sandbox/capacity/team-share.ts',
        from: 'Math.max(0, level - other)',
        to: '0',
      },
    ],
    search,
    finds: /^neighbour/,
  },
  {
    name: 'teams mixed up',
    fault: 'The memory guard counts all sandboxes as those of one team.',
    edits: [
      {
        file: 'src/core/sandbox/capacity/sandbox-teams.ts',
        from: 'else this.#known.set(sandboxID, teamID)',
        to: "else this.#known.set(sandboxID, 'one')",
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
        file: 'src/core/sandbox/capacity/frozen-sandboxes.ts',
        from: 'this.#shortages.filter(({ keepsFrozen }) => keepsFrozen())',
        to: 'this.#shortages',
      },
      {
        file: 'src/core/sandbox/capacity/frozen-sandboxes.ts',
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
        file: 'src/core/sandbox/capacity/frozen-sandboxes.ts',
        from: 'if (isNew) routes.letGo(sandboxID, runID)',
        to: 'void isNew',
      },
    ],
    search,
    finds: /is recorded as frozen/,
  },
]
