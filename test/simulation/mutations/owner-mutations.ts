/** Faults in which a name, an address or an answer is taken for the thing: what was lost, or came twice, because of them. */
import type { Mutation } from './mutation.ts'

const inProfile = <Name extends string>(profile: Name) => ({ plan: { nodes: 3, profile } }) as const

export const ownerMutations: Mutation[] = [
  {
    name: 'memory that the store has',
    fault:
      'A resume that failed after its start goes back to the used files, although the object store has the snapshot.',
    edits: [
      {
        file: 'src/core/sandbox/snapshots/snapshot-sources.ts',
        from: 'const stored = await fetcher?.storedOf(row)',
        to: 'const stored = copy ? undefined : await fetcher?.storedOf(row)',
      },
    ],
    search: inProfile('failed resumes'),
    finds: /^content kept/,
  },
  {
    name: 'files under the name of a snapshot',
    fault: 'Files that were fetched for a resume without memory, which was rejected, count as the snapshot.',
    edits: [
      {
        file: 'src/core/sandbox/snapshots/snapshot-sources.ts',
        from: 'const hasMemory = !memory || !row.snapshot.memory || copy?.memory === true',
        to: 'const hasMemory = true',
      },
    ],
    search: inProfile('rejected resumes'),
    finds: /^content kept/,
  },
  {
    name: 'left and came back',
    fault: 'A resume goes on with the snapshot that it read, although the row was on another node meanwhile.',
    edits: [
      {
        file: 'src/store/sandbox/sandbox-queries.ts',
        from: "    .where('version', '=', at.version)\n",
        to: '',
      },
      {
        file: 'src/core/object-storage/migrator.ts',
        from: 'return turns.acquireView(sandboxID, findPaused, async ({ row: paused }) => {',
        to: 'return ((_: unknown, find: typeof findPaused, work: (view: { row: Awaited<ReturnType<typeof findPaused>> }) => Promise<boolean>) => find().then((row) => work({ row })))(turns, findPaused, async ({ row: paused }) => {',
      },
      {
        file: 'src/core/sandbox/snapshots/snapshot-sources.ts',
        from: 'const stored = await fetcher?.storedOf(row)',
        to: "const stored = row.state === 'resuming' ? undefined : await fetcher?.storedOf(row)",
      },
    ],
    search: inProfile('left and came back'),
    finds: /ended as lost/,
  },
  {
    name: 'movable without its template',
    fault: 'A node takes over a paused sandbox whose template only its builder has.',
    edits: [{ file: 'src/store/sandbox/sandbox-queries.ts', from: '    hasStoredBuild(where),\n', to: '' }],
    search: inProfile('late store'),
    finds: /^content kept/,
  },
  {
    name: 'try again, and it runs',
    fault: 'A create whose answer was lost is told to try again, and its sandbox runs.',
    edits: [
      {
        file: 'src/core/cluster/placer.ts',
        from: "if (outcome === 'not reached') return 'failed'",
        to: "if (outcome === 'not reached' || outcome === 'lost') return 'failed'",
      },
    ],
    search: inProfile('lost creates'),
    finds: /^(failed create|idempotency)/,
  },
  {
    name: 'other prefix',
    fault:
      'A node whose settings name another place uses what it finds there, and marks builds that only it can find.',
    edits: [
      {
        file: 'src/core/object-storage/store-identity.ts',
        from: '    if (this.#provedID !== undefined) return\n',
        to: '    return\n',
      },
    ],
    search: inProfile('other prefix'),
    finds: /^pack needed/,
  },
  {
    name: 'template without its snapshot',
    fault:
      'The snapshot of a build whose last statement seemed to fail is deleted, and then the build appears.',
    edits: [
      {
        file: 'src/core/sandbox/verbs/copier.ts',
        from: 'if (!mayAppear || isNotDone(error)) await this',
        to: 'void mayAppear; void isNotDone; await this',
      },
    ],
    search: { plan: { profile: 'late commits' } },
    finds: /^snapshot needed/,
  },
  {
    name: 'hot loop',
    fault: 'What failed is tried again twenty times a second, with a log line each.',
    edits: [
      {
        file: 'src/lib/retry-delays.ts',
        from: 'Math.min(longestMs, firstMs * 2 ** (failures - 1))',
        to: '50 + 0 * Math.min(longestMs, firstMs * failures)',
      },
    ],
    search: { plan: { profile: 'webhooks' } },
    finds: /^rate/,
  },
  {
    name: 'gate entry that stays',
    fault: 'An address that is free again is still in the gate, as that of the sandbox which had it before.',
    edits: [
      {
        file: 'src/core/sandbox/launch/launcher.ts',
        from: '      parts.egress.forget(handle)\n',
        to: '',
      },
    ],
    search: { plan: { profile: 'addresses' } },
    finds: /^route/,
  },
  {
    name: 'gate by address',
    fault: 'A late kill closes the gate for the sandbox that has the address by now.',
    edits: [
      {
        file: 'test/support/fake-gate.ts',
        from: 'if (this.clients.get(address)?.start === start) this.clients.delete(address)',
        to: 'if (start) this.clients.delete(address)',
      },
    ],
    search: { plan: { profile: 'addresses' } },
    finds: /^egress policy: .* for those of nobody/,
  },
  {
    name: 'a sign of life that waits',
    fault: 'The loop of the sign of life waits until the pool of a draining node is empty.',
    edits: [
      {
        file: 'src/app/domain/loops.ts',
        from: "  const loops: Loop[] = [\n    { job: 'empty the warm pool', pauseMs: renewEveryMs, work: fitPool },\n",
        to: `  const renew = membership.renew
  membership.renew = async function () {
    await fitPool()
    await renew.call(membership)
  }
  const loops: Loop[] = [
`,
      },
    ],
    search: inProfile('drains'),
    finds: /^sign of life/,
  },
]
