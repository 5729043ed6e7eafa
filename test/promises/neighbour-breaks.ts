/** Breaks of what a team must not be able to do to its neighbours by using much. */
import type { Break } from './break.ts'

const memoryGuard = 'src/core/sandbox/capacity/machine-memory-guard.ts'
/** The guard cannot tell teams apart. */
const noTeams = {
  file: memoryGuard,
  from: 'this.#divide(memory.usesOf(sizes), ',
  to: "this.#divide(memory.usesOf(sizes).map((use) => ({ ...use, teamID: 'everybody' })), ",
}
/** Nobody starts anything while memory is short, however little the team uses. */
const noPartOfItsOwn = {
  file: memoryGuard,
  from: '(this.#memory.isBelowFairShare(teamID) ? endBytes : startBytes)',
  to: '(this.#memory.isBelowFairShare(teamID) ? startBytes : startBytes)',
}

const usedUp = {
  file: 'test/security/used-up-memory.test.ts',
  title: 'a team below its share pays for nothing that another team takes, and still creates sandboxes',
}
const neighbour = {
  file: 'test/security/promises/neighbour.test.ts',
  title: 'is answered, within its bounds, and nothing of it is frozen, paused or ended',
}

export const neighbourBreaks: Break[] = [
  {
    name: 'memory that is taken from whoever has most',
    fault: 'The guard takes memory back from the largest sandbox of all teams.',
    edits: [noTeams],
    ...usedUp,
  },
  {
    name: 'build that pays with its memory',
    fault: 'The guard ends builds that grow, whatever their team uses.',
    edits: [
      {
        file: memoryGuard,
        from: '(sandboxID) => shares.beyond.has(sandboxID)',
        to: '() => shares.beyond.size >= 0',
      },
    ],
    file: 'src/core/sandbox/capacity/machine-memory-guard-teams.test.ts',
    title: 'ends no build of another team, and that of a team above its share first',
  },
  {
    name: 'neighbour that pays with its memory',
    fault: 'The guard takes memory back from the largest sandbox of all teams.',
    edits: [noTeams],
    ...neighbour,
  },
  {
    name: 'neighbour that may not create',
    fault: 'While one team holds the memory, no other team starts a sandbox.',
    edits: [noPartOfItsOwn],
    ...neighbour,
  },
]
