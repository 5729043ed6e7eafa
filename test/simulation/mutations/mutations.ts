/**
 * Faults that Warren once had, put back in by hand: the proof that the simulation would find them again. An edit
 * replaces a text that a source file holds exactly once; when the code changes, the edit is adapted to it.
 */

import { arrivalMutations } from './arrival-mutations.ts'
import { memoryMutations } from './memory-mutations.ts'
import type { Mutation } from './mutation.ts'
import { ownerMutations } from './owner-mutations.ts'
import { staleMutations } from './stale-mutations.ts'

export const mutations: Mutation[] = [
  {
    name: 'unfenced expiry',
    fault:
      'A set-timeout or a pause that was answered after the expiry had listed the sandbox is ended all the same.',
    edits: [
      {
        file: 'src/core/sandbox/expiry.ts',
        from: "ender.beginAsSeen(row, 'timeout')",
        to: "ender.end(row.sandboxID, 'timeout')",
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
        file: 'src/core/sandbox/row/retrying-store.ts',
        from: 'transition(at, to, changes) {\n',
        to: "transition(at, to, changes) {\n      if (to === 'paused') return store.transition(at, to, changes, { transitionID: newUUID(), at: clock.now() })\n",
      },
      {
        file: 'src/core/sandbox/verbs/pauser.ts',
        from: 'return this.#markPaused(row, snapshot)\n',
        to: 'return this.#markPaused(row, snapshot).catch(async (error) => { await this.#goOn(row, {}); throw error })\n',
      },
    ],
    search: { plan: { mishaps: [], storeFails: 0.2 } },
    finds: /ended as lost|^snapshot needed|^content kept/,
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
    search: {
      plan: { mishaps: ['unreadable', 'crash'] },
      history: { absentReads: { recover: 'gone', list: [] } },
    },
    finds: /was running and ended as lost/,
  },
  {
    name: 'rows without an owner',
    fault: "Two Warrens on one database end each other's sandboxes.",
    search: { plan: { nodes: 2, isCluster: false, mishaps: [] }, history: { oneOwner: true } },
    finds: /ended as lost/,
  },
  {
    name: 'counter awaited',
    fault: 'A create fails because of a counter, after its sandbox runs.',
    edits: [
      {
        file: 'src/core/sandbox/verbs/creator.ts',
        from: 'createCounter.count(row.templateID, startedAt)',
        to: 'await this.#parts.templates.recordCreates(row.templateID, 1, startedAt)',
      },
    ],
    search: { plan: { mishaps: [], storeFails: 0.2 } },
    finds: /^failed create: /,
  },
  {
    name: 'take-over without a fence',
    fault: 'A node takes over a sandbox that its owner, back again, or another node has resumed meanwhile.',
    edits: [
      {
        file: 'src/store/objects/remote-bytes.ts',
        from: `      .where('run_id', '=', at.runID)
      .where('node_id', '=', at.nodeID)
      .where('version', '=', at.version)
      .where(isMovable)
      // An owner of an earlier release corrects the snapshot without a new version: the correction would be lost.
      .where('saved', '=', row.saved)
`,
        to: '',
      },
    ],
    search: { plan: { nodes: 3, mishaps: ['lapse'] } },
    finds: /^one copy: /,
  },
  {
    name: 'forget ends what the store has',
    fault: 'With a forgotten node end paused sandboxes that any other node could have taken.',
    edits: [
      {
        file: 'src/store/node/node-forgetting.ts',
        from: '    .where((where) => where.not(isMovable(where)))\n',
        to: '',
      },
      {
        file: 'src/store/node/node-forgetting.ts',
        from: 'from: [state], isUnmovable: true }',
        to: 'from: [state] }',
      },
    ],
    search: { plan: { nodes: 3, mishaps: ['forgotten'] } },
    finds: /^pack needed: .* was ended, though/,
  },
  {
    name: 'copy of another node kept',
    fault: 'A node that comes back leaves what another has taken over where it is.',
    edits: [
      {
        file: 'src/core/sandbox/reconciler.ts',
        from: 'await this.#reconcileUnowned(await this.#withoutCopies(unowned))',
        to: 'await this.#reconcileUnowned(unowned)',
      },
    ],
    search: { plan: { nodes: 3, mishaps: ['old copy'] } },
    finds: /^one copy: /,
  },
  {
    name: 'limits of one node',
    fault: 'A node counts only its own sandboxes against the limits of a team.',
    edits: [
      {
        file: 'src/store/sandbox/sandbox-insert.ts',
        from: 'const exceeded = await exceededLimit(locked, sandbox, limits, used)',
        to: `const own = await locked.selectFrom('sandboxes').select('id').where('team_id', '=', sandbox.teamID)
          .where('node_id', '=', row.node_id).where('state', 'not in', ['ended', 'paused']).execute()
        const exceeded = own.length + 1 > limits.maxSandboxes ? 'maxSandboxes' : undefined`,
      },
    ],
    search: { plan: { nodes: 3, mishaps: [] } },
    finds: /^limits: /,
  },
  {
    name: 'marked before it is there',
    fault: 'The row says that the object store has a snapshot before its upload is done.',
    edits: [
      {
        file: 'src/core/object-storage/uploader.ts',
        from: `const result = await snapshots.store(
        snapshotName,
`,
        to: `await rows.markSandbox({ sandboxID, runID }, { at: clock.now(), needs: null })
      const result = await snapshots.store(
        snapshotName,
`,
      },
    ],
    search: { plan: { nodes: 3, mishaps: [] } },
    finds: /^pack needed: .* is marked/,
  },
  {
    name: 'sweep of what is needed',
    fault: 'The sweep of the object store removes the pack of a paused sandbox.',
    edits: [{ file: 'src/core/object-storage/sweeper.ts', from: '...runs.map(sandboxKey), ', to: '' }],
    search: { plan: { nodes: 3, profile: 'early resumes' } },
    finds: /^pack needed: .* is removed/,
  },
  ...staleMutations,
  ...memoryMutations,
  ...arrivalMutations,
  ...ownerMutations,
]
