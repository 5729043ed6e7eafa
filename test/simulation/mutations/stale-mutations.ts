/**
 * The faults of acting on what was true a moment ago, and of taking a lost answer for a call that did not happen, put back
 * in by hand.
 */
import type { Mutation } from './mutation.ts'

export const staleMutations: Mutation[] = [
  {
    name: 'warm sandbox of two teams',
    fault:
      'An insert of unknown outcome gives its warm sandbox back to the pool, and its row is known by its id alone.',
    edits: [
      {
        file: 'src/core/sandbox/verbs/creator.ts',
        from: 'if (warm) pool.release(warm)\n      throw error',
        to: 'if (warm) pool.putBack(warm)\n      throw error',
      },
      {
        file: 'src/core/sandbox/row/retrying-store.ts',
        from: 'isRowOf(sandbox, await store.find(sandbox.sandboxID))',
        to: '(await store.find(sandbox.sandboxID)) !== undefined',
      },
    ],
    search: { plan: { profile: 'burst in an outage' } },
    finds: /^(answer true|own sandbox|.*already_exists)|another team|exists already|variables/,
  },
  {
    name: 'row from the list',
    fault: 'The reconciler acts on the row that it listed, without the turn of the sandbox.',
    edits: [
      {
        file: 'src/core/sandbox/reconciler.ts',
        from: 'await turns.acquireIfFree(seen.sandboxID, ({ row, signal }) => this.#reconcileInTurn(row, found, signal))',
        to: 'await this.#reconcileInTurn(seen, found, new AbortController().signal)',
      },
    ],
    search: { plan: { profile: 'overlapping rounds' } },
    finds: /./,
  },
  {
    name: 'policy proved by a wish',
    fault: 'Rules that the driver was asked for count as those that hold.',
    edits: [
      {
        file: 'src/core/sandbox/network/egress.ts',
        from: 'this.#proved.delete(startOf(handle))\n    if (canLimitEgress',
        to: 'this.noteRules(handle, rules)\n    if (canLimitEgress',
      },
    ],
    search: { plan: { profile: 'egress policies' } },
    finds: /^egress policy/,
  },
  {
    name: 'policy of a frozen sandbox',
    fault: 'A frozen sandbox continues without a check of its rules.',
    edits: [
      {
        file: 'src/core/sandbox/launch/launcher.ts',
        from: 'await this.#limit(handle!, options)\n    await this.thaw',
        to: 'await this.thaw',
      },
      {
        file: 'src/core/sandbox/launch/launcher.ts',
        from: 'await this.#limit(handle, row.options)\n    const route',
        to: 'const route',
      },
    ],
    search: { plan: { profile: 'egress policies' } },
    finds: /^egress policy/,
  },
  {
    name: 'route before the turn',
    fault: 'A route is opened for a row that is not running any more.',
    edits: [
      {
        file: 'src/core/sandbox/reconciler.ts',
        from: 'await turns.acquireIfFree(seen.sandboxID, ({ row, signal }) => this.#reconcileInTurn(row, found, signal))',
        to: `if (seen.state === 'running' && (await driver.recover(seen.handle!)) === 'running') await launcher.open(seen)
    else await turns.acquireIfFree(seen.sandboxID, ({ row, signal }) => this.#reconcileInTurn(row, found, signal))`,
      },
    ],
    search: { plan: { profile: 'egress policies' } },
    histories: 1500,
    finds: /route|egress policy/,
  },
  {
    name: 'kills behind pauses',
    fault: 'Kills wait until the pauses that are due have their places.',
    edits: [
      {
        file: 'src/core/sandbox/expiry.ts',
        from: 'next = Math.min(await this.#killDue(), await this.#pauseDue())',
        to: 'next = await this.#pauseDue()\n      if (next < Number.POSITIVE_INFINITY) next = Math.min(next, await this.#killDue())\n      else next = clock.now() + 50',
      },
    ],
    search: { plan: { profile: 'many due' } },
    finds: /^overdue/,
  },
  {
    name: 'row without a turn',
    fault: 'A create has no turn while its row is being inserted, so a round ends the row.',
    edits: [
      {
        file: 'src/core/sandbox/verbs/creator.ts',
        from: 'const outcome = turns.begin(sandboxID, (signal) =>',
        to: 'const outcome = ((work: (signal: AbortSignal) => ReturnType<SandboxCreator["start"]>) => work(new AbortController().signal))((signal) =>',
      },
    ],
    search: { plan: { profile: 'addresses' } },
    finds: /./,
  },
  {
    name: 'exit while busy',
    fault: 'The exit of a sandbox that is busy is forgotten.',
    edits: [
      {
        file: 'src/core/sandbox/reconciler.ts',
        from: 'await this.#parts.turns.acquire(sandboxID, ({ row, signal }) =>',
        to: 'await this.#parts.turns.acquireIfFree(sandboxID, ({ row, signal }) =>',
      },
    ],
    search: { plan: { profile: 'deaths in rounds' } },
    finds: /lost/,
  },
  {
    name: 'volume from the list',
    fault: 'The disk of a volume goes that was being made when the volumes were listed, and is ready by now.',
    edits: [
      {
        file: 'src/core/volume/service.ts',
        from: 'for (const volumeID of doubted) {\n      await this.#turns\n',
        to: "for (const volumeID of doubted) {\n      const listed = (inDoubt as Volume[]).find((one) => one.volumeID === volumeID)\n      if (listed?.state === 'creating') await this.#parts.disks.remove(volumeID)\n      await this.#turns\n",
      },
    ],
    search: { plan: { profile: 'volumes' } },
    finds: /volume|disk/,
  },
  {
    name: 'volume undone',
    fault: 'A volume whose last answer was lost loses its disk, and its row stays ready.',
    edits: [
      {
        file: 'src/core/volume/service.ts',
        from: 'throw perhapsCreated(name, error)',
        to: 'return disks.remove(volumeID).then(() => Promise.reject(perhapsCreated(name, error)))',
      },
    ],
    search: { plan: { profile: 'volumes' } },
    finds: /volume|disk/,
  },
  {
    name: 'failed release of a disk',
    fault: 'A disk that cannot be released makes the start fail, and the sandbox runs on.',
    edits: [
      {
        file: 'src/core/volume/service.ts',
        from: 'this.#unreleased.add(acquired)\n',
        to: 'throw error\n',
      },
    ],
    search: { plan: { profile: 'volumes' } },
    finds: /./,
  },
  {
    name: 'drain without a mark',
    fault:
      'What a drain paused is not written down, so it stays paused when an answer is lost or a process dies.',
    edits: [
      {
        file: 'src/core/sandbox/verbs/pauser.ts',
        from: 'options.departs ? { runUntil: endAt } : {}',
        to: '{}',
      },
    ],
    search: { plan: { nodes: 3, profile: 'drains' } },
    finds: /drain|runs? again|stays paused/,
  },
  {
    name: 'drain without the end',
    fault: 'A timeout that is extended between the list and the move of a drain is lost.',
    edits: [
      {
        file: 'src/core/sandbox/verbs/pauser.ts',
        from: 'const fence = options.isAutomatic || options.departs ? { endAt } : {}',
        to: 'const fence = options.isAutomatic ? { endAt } : {}',
      },
      {
        file: 'src/core/sandbox/upkeep.ts',
        from: "row?.state === 'running' && row.runID === seen.runID && row.endAt === seen.endAt\n        ? this.#verbs.pauser.pause(row, options, signal)",
        to: "row?.state === 'running' && row.runID === seen.runID\n        ? this.#verbs.pauser.pause({ ...row, endAt: seen.endAt }, options, signal)",
      },
    ],
    search: { plan: { nodes: 3, profile: 'drains' } },
    finds: /^lifetime|told/,
  },
  {
    name: 'volume that moves',
    fault: 'A paused sandbox with a volume is taken over by a node that cannot mount it.',
    edits: [
      {
        file: 'src/store/sandbox/sandbox-queries.ts',
        from: '    hasStoredBuild(where),\n    hasNoVolume(where),\n',
        to: '    hasStoredBuild(where),\n',
      },
    ],
    search: { plan: { nodes: 3, profile: 'volumes of a cluster' } },
    finds: /volume/,
  },
  {
    name: 'stranger who moves a row',
    fault: 'A request takes a sandbox over before it is known who asks.',
    edits: [
      {
        file: 'src/core/cluster/request-router.ts',
        from: "if (course.kind === 'take over') return 'absent'",
        to: "if (course.kind === 'take over') {\n      await this.takeOver(what.id, { memory: true })\n      return 'here'\n    }",
      },
    ],
    search: { plan: { nodes: 3, profile: 'strangers' } },
    finds: /stranger|nobody of its team/,
  },
  {
    name: 'layer swept in use',
    fault: 'The sweep reads what is needed once, and removes a layer that a new build has begun to need.',
    edits: [
      {
        file: 'src/core/object-storage/uploader.ts',
        from: 'if (condemned.length === 0) return',
        to: 'if (condemned.length >= 0) return',
      },
      {
        file: 'src/core/object-storage/sweeper.ts',
        from: 'const unneeded = keys.filter((key) => !needed.has(key))\n    const settled = keys.filter((key) => needed.has(key))',
        to: 'const unneeded = needed && [...keys]\n    const settled: ObjectKey[] = []',
      },
    ],
    search: { plan: { nodes: 3, profile: 'layers' } },
    finds: /layer/,
  },
  {
    name: 'quarantine without turns',
    fault: 'A snapshot is removed while it is being given back.',
    edits: [
      {
        file: 'src/core/sandbox/snapshots/quarantine.ts',
        from: 'await retryPassing(clock, () => entries.markForRemoval(snapshotName))\n',
        to: '',
      },
      {
        file: 'src/core/sandbox/snapshots/quarantine.ts',
        from: 'remove(snapshotName: string): Promise<void> {\n    return this.#turns.acquire(snapshotName, async ({ row }) => {\n      this.#ours(snapshotName, row)\n      await this.#remove(row!)\n    })',
        to: 'async remove(snapshotName: string): Promise<void> {\n    const row = await this.#parts.entries.find(snapshotName)\n    this.#ours(snapshotName, row as never)\n    await this.#parts.snapshots.remove(snapshotName)\n    await this.#parts.entries.remove(snapshotName)',
      },
    ],
    search: { plan: { nodes: 3, profile: 'quarantine' } },
    finds: /^snapshot needed|^reason told|^content kept/,
  },
  {
    name: 'admission fails open',
    fault: 'One figure of the machine that cannot be read lets a start pass, whatever the others say.',
    edits: [
      {
        file: 'src/core/sandbox/capacity/admission.ts',
        from: `      sandboxes.sumActive().catch(() => ({ cpuCount: 0, memoryMB: 0 })),
      machine.availableMemoryMB().catch(() => Number.POSITIVE_INFINITY),
      freeBytes().catch(() => Number.POSITIVE_INFINITY),
    ])`,
        to: `      sandboxes.sumActive(),
      machine.availableMemoryMB(),
      freeBytes(),
    ]).catch(() => [{ cpuCount: 0, memoryMB: 0 }, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY] as const)`,
      },
    ],
    search: { plan: { profile: 'full machine' } },
    finds: /full/,
  },
  {
    name: 'build sandbox kept',
    fault: 'One failed stop of the sandbox of a build leaves it for ever, and hangs the end of the process.',
    edits: [
      {
        file: 'src/core/sandbox/builds/build-sandboxes.ts',
        from: '.finally(this.#onEnd)',
        to: '',
      },
      {
        file: 'src/core/sandbox/builds/build-sandboxes.ts',
        from: "this.#parts.log.warn({ sandboxID, err: error }, 'The sandbox of a build could not be stopped yet.'),\n      )",
        to: "{ this.#parts.log.warn({ sandboxID, err: error }, 'not stopped'); throw error },\n      ).then(() => this.#onEnd())",
      },
    ],
    search: { plan: { profile: 'builds' } },
    finds: /./,
  },
  {
    name: 'sent again from the list',
    fault: 'An event that arrived while the list of what is due was read is sent again.',
    edits: [
      {
        file: 'src/core/webhook/dispatcher.ts',
        from: 'if (this.#recordedLately.has(deliveryID) || this.#unrecorded',
        to: 'if (this.#unrecorded',
      },
    ],
    search: { plan: { profile: 'webhooks' } },
    finds: /is sent again/,
  },
  {
    name: 'sent without the lease',
    fault: 'Where reading what is due takes longer than the lease, two nodes send.',
    edits: [
      {
        file: 'src/core/webhook/dispatcher.ts',
        from: 'if (!this.#hasLease()) return\n',
        to: '',
      },
    ],
    search: { plan: { nodes: 3, profile: 'webhooks of a cluster' } },
    finds: /sends without the lease/,
  },
  {
    name: 'delivered before it is sent',
    fault:
      'A delivery is recorded before its request is made, so that a crash or a receiver that fails loses it.',
    edits: [
      {
        file: 'src/core/webhook/dispatcher.ts',
        from: 'const outcome = await this.#attempt(delivery)\n',
        to: `const early = { status: 'delivered', at: clock.now(), nextAt: 0, httpStatus: 200, error: null } as const
    await deliveries.record(delivery, early)
    const outcome = await this.#attempt(delivery)\n`,
      },
    ],
    search: { plan: { profile: 'webhooks' } },
    finds: /has not said so/,
  },
  {
    name: 'record taken for the kernel',
    fault: 'The driver treats recorded rules as applied rules, and reports a retried change as done.',
    search: { plan: { profile: 'egress policies' }, history: { trustsRecord: true } },
    finds: /^egress policy/,
  },
]
