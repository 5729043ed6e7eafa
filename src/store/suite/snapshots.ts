import assert from 'node:assert/strict'
import { defaultTeamLimits } from '../../core/team/team.ts'
import type { BuildSnapshot, TemplateBuild } from '../../core/template/template.ts'
import type { SnapshotFilter } from '../../core/template/template-store.ts'
import { isAppError } from '../../lib/app-error.ts'
import { newUUID } from '../../lib/ids.ts'
import type { Stores } from '../stores.ts'
import { aBuild, aSandbox, aTemplate, insertSandboxIn, insertTeam, insertTemplate, time } from './rows.ts'
import type { StoreTest } from './store-test.ts'

const aBuildSnapshot = (changes: Partial<BuildSnapshot> = {}): BuildSnapshot => ({
  name: newUUID(),
  memory: true,
  sandboxID: 'isource',
  ...changes,
})

const wholeList = { limit: 100 }

export function snapshotSuite(storeTest: StoreTest): void {
  snapshotBuilds(storeTest)
  listing(storeTest)
  deleting(storeTest)
}

function snapshotBuilds(storeTest: StoreTest): void {
  storeTest('a snapshot template is read back as a snapshot', async (stores) => {
    const snapshot = await insertTemplate(stores, { isSnapshot: true })
    const built = await insertTemplate(stores)
    assert.deepEqual(await stores.templates.findByID(snapshot.templateID), snapshot)
    assert.deepEqual(await stores.templates.findByID(built.templateID), built)
  })

  storeTest('a build is found in any status, with or without a snapshot', async (stores) => {
    const { templateID } = await insertTemplate(stores)
    const builds = [
      aBuild(templateID, { status: 'waiting', snapshot: aBuildSnapshot() }),
      aBuild(templateID, { status: 'error', snapshot: aBuildSnapshot({ memory: false }) }),
      aBuild(templateID),
    ]
    for (const build of builds) {
      await stores.templates.insertBuild(build, [])
      assert.deepEqual(await stores.templates.findBuild(build.buildID), build)
    }
    assert.equal(await stores.templates.findBuild(newUUID()), undefined)
  })

  storeTest(
    'the snapshot of a build is set, replaced and cleared, and other updates keep it',
    async ({ templates, ...stores }) => {
      const { templateID } = await insertTemplate({ templates, ...stores })
      const build = aBuild(templateID)
      await templates.insertBuild(build, ['default'])
      const after = async (changes: Partial<TemplateBuild>) => {
        await templates.updateBuild(build.buildID, changes)
        return (await templates.findReadyBuild(templateID, 'default'))?.snapshot
      }
      const snapshot = aBuildSnapshot()
      assert.deepEqual(await after({ snapshot }), snapshot)
      assert.deepEqual(await after({ updatedAt: time + 1 }), snapshot)
      const other = aBuildSnapshot({ memory: false, sandboxID: 'iother' })
      assert.deepEqual(await after({ snapshot: other }), other)
      assert.equal(await after({ snapshot: null }), null)
    },
  )

  storeTest('the names of snapshots are those of current builds, each once', async (stores) => {
    const { templates } = stores
    assert.deepEqual(await templates.listSnapshotNames(), [])
    const { templateID } = await insertTemplate(stores)
    const builds = ['one', 'two', 'two', 'three'].map((name) =>
      aBuild(templateID, { status: 'error', snapshot: aBuildSnapshot({ name }) }),
    )
    for (const build of [...builds, aBuild(templateID)]) await templates.insertBuild(build, [])
    assert.deepEqual((await templates.listSnapshotNames()).sort(), ['one', 'three', 'two'])
    await templates.updateBuild(builds[0]!.buildID, { snapshot: null })
    assert.deepEqual((await templates.listSnapshotNames()).sort(), ['three', 'two'])
  })
}

type SnapshotBuild = Partial<TemplateBuild> & { tags?: string[]; source?: string }

/** Inserts a snapshot template with builds in the order in which their tags were assigned. */
async function insertSnapshot(
  stores: Stores,
  template: { teamID: string; templateID?: string; isSnapshot?: boolean },
  builds: SnapshotBuild[],
): Promise<string> {
  const { templateID } = await insertTemplate(stores, { isSnapshot: true, ...template })
  for (const { tags = ['default'], source = 'isource', ...changes } of builds) {
    const buildID = newUUID()
    const snapshot = aBuildSnapshot({ name: buildID, sandboxID: source })
    await stores.templates.insertBuild(aBuild(templateID, { buildID, snapshot, ...changes }), tags)
  }
  return templateID
}

function listing(storeTest: StoreTest): void {
  storeTest('a snapshot is listed once, with its newest assignment whose build is ready', async (stores) => {
    const { teamID } = await insertTeam(stores)
    const templateID = await insertSnapshot(stores, { teamID }, [
      { createdAt: time + 9, tags: ['v1'] },
      { createdAt: time + 5, tags: ['default', 'v2'] },
      { createdAt: time + 20, tags: ['v3'], status: 'building' },
      { createdAt: time + 21, tags: ['v4'], status: 'error' },
    ])
    const { cpuCount, memoryMB, diskMB } = aBuild(templateID)
    assert.deepEqual(await stores.templates.listSnapshots({ teamID }, wholeList), [
      { templateID, tag: 'v2', createdAt: time + 5, sandboxID: 'isource', cpuCount, memoryMB, diskMB },
    ])
  })

  storeTest(
    'templates that are no snapshots, of other teams, or with no ready build are not listed',
    async (stores) => {
      const { teamID } = await insertTeam(stores)
      const other = await insertTeam(stores)
      await insertSnapshot(stores, { teamID, isSnapshot: false }, [{}])
      await insertSnapshot(stores, { teamID }, [{ status: 'building' }, { tags: [] }])
      await insertSnapshot(stores, { teamID }, [])
      const theirs = await insertSnapshot(stores, { teamID: other.teamID }, [{}])
      assert.deepEqual(await stores.templates.listSnapshots({ teamID }, wholeList), [])
      const listed = await stores.templates.listSnapshots({ teamID: other.teamID }, wholeList)
      assert.deepEqual(
        listed.map(({ templateID }) => templateID),
        [theirs],
      )
    },
  )

  storeTest(
    'a snapshot whose name was also built is listed as a template and as a snapshot',
    async (stores) => {
      const { teamID } = await insertTeam(stores)
      const listed = () => stores.templates.listTemplates(teamID, { order: 'asc', limit: 10 })
      const templateID = await insertSnapshot(stores, { teamID }, [{ tags: ['v1'] }])
      assert.deepEqual(await listed(), [])
      for (const snapshot of [null, aBuildSnapshot()]) {
        const build = aBuild(templateID, { snapshot, createdAt: time + 5 })
        await stores.templates.insertBuild(build, ['default'])
        assert.deepEqual(
          (await listed()).map((one) => one.build?.buildID),
          [build.buildID],
        )
        const snapshots = await stores.templates.listSnapshots({ teamID }, wholeList)
        assert.deepEqual(
          snapshots.map((one) => [one.templateID, one.tag, one.createdAt]),
          [[templateID, 'v1', time]],
        )
      }
    },
  )

  storeTest('snapshots are filtered by template, tag and source, one by one and together', async (stores) => {
    const { teamID } = await insertTeam(stores)
    const templateID = await insertSnapshot(stores, { teamID, templateID: 'sone' }, [
      { createdAt: time + 1, tags: ['v1'], source: 'ifirst' },
      { createdAt: time + 2, tags: ['v1'], source: 'isecond' },
      { createdAt: time + 3, tags: ['v2'], source: 'isecond' },
    ])
    await insertSnapshot(stores, { teamID, templateID: 'stwo' }, [
      { createdAt: time, tags: ['v2'], source: 'ifirst' },
    ])
    const list = async (filter: Omit<SnapshotFilter, 'teamID'>) =>
      (await stores.templates.listSnapshots({ teamID, ...filter }, wholeList)).map((entry) =>
        [entry.templateID, entry.tag, entry.createdAt - time].join(' '),
      )
    assert.deepEqual(await list({}), ['sone v2 3', 'stwo v2 0'])
    assert.deepEqual(await list({ templateID }), ['sone v2 3'])
    assert.deepEqual(await list({ tag: 'v1' }), ['sone v1 2'])
    assert.deepEqual(await list({ sandboxID: 'ifirst' }), ['sone v1 1', 'stwo v2 0'])
    assert.deepEqual(await list({ tag: 'v2', sandboxID: 'ifirst' }), ['stwo v2 0'])
    assert.deepEqual(await list({ templateID, tag: 'v2', sandboxID: 'ifirst' }), [])
    for (const none of [{ templateID: 'none' }, { tag: 'none' }, { sandboxID: 'none' }]) {
      assert.deepEqual(await list(none), [])
    }
  })

  storeTest('pages of any size show every snapshot once, newest first, then by id', async (stores) => {
    const { teamID } = await insertTeam(stores)
    const created = { sc: 1, sa: 1, se: 0, sb: 2, sd: 1 }
    for (const [templateID, after] of Object.entries(created)) {
      await insertSnapshot(stores, { teamID, templateID }, [{ createdAt: time + after }])
    }
    for (const limit of [1, 2, 3, 5, 6]) {
      const seen: string[] = []
      let after: { createdAt: number; templateID: string } | undefined
      for (;;) {
        const entries = await stores.templates.listSnapshots({ teamID }, { limit, after })
        assert.ok(entries.length <= limit)
        if (entries.length === 0) break
        seen.push(...entries.map(({ templateID }) => templateID))
        assert.ok(seen.length <= 5, `by ${limit}: ${seen}`)
        after = entries.at(-1)
      }
      assert.deepEqual(seen, ['sb', 'sa', 'sc', 'sd', 'se'], `by ${limit}`)
    }
  })
}

const deletedOf = (result: Awaited<ReturnType<Stores['templates']['deleteUnused']>>) =>
  result && 'deleted' in result ? result.deleted : undefined

function deleting(storeTest: StoreTest): void {
  storeTest(
    'a deleted template is removed with its names, tags and builds, which are returned',
    async (stores) => {
      const { templates } = stores
      const { teamID } = await insertTeam(stores)
      const template = aTemplate({ teamID, isSnapshot: true })
      const name = { namespace: 'rabbits', alias: 'web' }
      await templates.insertTemplate(template, [name])
      const { templateID } = template
      const builds = [
        aBuild(templateID, { snapshot: aBuildSnapshot() }),
        aBuild(templateID, { status: 'building' }),
        aBuild(templateID, { status: 'error', snapshot: aBuildSnapshot() }),
      ]
      for (const build of builds) await templates.insertBuild(build, ['default'])
      const other = await insertSnapshot(stores, { teamID }, [{}])

      const gone = deletedOf(await templates.deleteUnused(templateID))
      const byID = (a: TemplateBuild, b: TemplateBuild) => (a.buildID < b.buildID ? -1 : 1)
      assert.deepEqual(gone?.sort(byID), builds.sort(byID))
      assert.equal(await templates.findByID(templateID), undefined)
      assert.equal(await templates.findByAlias('rabbits', 'web'), undefined)
      for (const { buildID } of builds) assert.equal(await templates.findBuild(buildID), undefined)
      const left = await templates.listSnapshots({ teamID }, wholeList)
      assert.deepEqual(
        left.map((entry) => entry.templateID),
        [other],
      )
      assert.equal((await templates.listSnapshotNames()).length, 1)
      assert.equal(await templates.deleteUnused(templateID), undefined)
      await templates.insertTemplate(aTemplate(), [name])
    },
  )

  storeTest(
    'a template without builds is deleted, and an unknown template gives another result',
    async (stores) => {
      const { templateID } = await insertTemplate(stores)
      assert.deepEqual(await stores.templates.deleteUnused(templateID), { deleted: [] })
      assert.equal(await stores.templates.deleteUnused(templateID), undefined)
    },
  )

  storeTest('of parallel deletes, one gets the builds', async (stores) => {
    const { templateID } = await insertTemplate(stores)
    const build = aBuild(templateID)
    await stores.templates.insertBuild(build, ['default'])
    const deletes = Array.from({ length: 10 }, () => stores.templates.deleteUnused(templateID))
    const done = (await Promise.all(deletes)).filter((builds) => builds !== undefined)
    assert.deepEqual(done, [{ deleted: [build] }])
  })

  storeTest(
    'a build that is inserted while its template is deleted is returned or rejected',
    async (stores) => {
      const { templates } = stores
      const { templateID } = await insertTemplate(stores)
      const builds = Array.from({ length: 16 }, () => aBuild(templateID, { snapshot: aBuildSnapshot() }))
      const insert = async (build: TemplateBuild) => {
        try {
          await templates.insertBuild(build, ['default'])
          return build.buildID
        } catch (error) {
          assert.ok(isAppError(error, 'not_found'), String(error))
          return undefined
        }
      }
      const firstInserts = builds.slice(0, 8).map(insert)
      const deleted = templates.deleteUnused(templateID)
      const inserted = await Promise.all([...firstInserts, ...builds.slice(8).map(insert)])
      const returned = deletedOf(await deleted)?.map(({ buildID }) => buildID)
      assert.deepEqual(returned?.sort(), inserted.filter((buildID) => buildID !== undefined).sort())
      assert.deepEqual(await templates.listSnapshotNames(), [])
    },
  )

  storeTest('a template that sandboxes use stays until they have ended', async (stores) => {
    const { templateID } = await insertTemplate(stores)
    const { teamID } = await insertTeam(stores)
    const states = [
      'creating',
      'running',
      'pausing',
      'paused',
      'snapshotting',
      'resuming',
      'killing',
    ] as const
    await insertSandboxIn(stores, teamID, 'ended', { templateID })
    for (const state of states) {
      const { sandboxID, runID } = await insertSandboxIn(stores, teamID, state, { templateID })
      assert.deepEqual(await stores.templates.deleteUnused(templateID), { usedIn: [state] })
      const at = { sandboxID, runID }
      if (state !== 'killing') await stores.sandboxes.transition({ ...at, from: [state] }, 'killing')
      await stores.sandboxes.transition({ ...at, from: ['killing'] }, 'ended', {
        endedAt: time,
        endReason: 'killed',
      })
    }
    assert.deepEqual(await stores.templates.deleteUnused(templateID), { deleted: [] })
  })

  storeTest(
    'a create and the deletion of its template at the same time take effect one after the other',
    async (stores) => {
      const { teamID } = await insertTeam(stores)
      for (let round = 0; round < 10; round++) {
        const { templateID } = await insertTemplate(stores)
        const insert = () =>
          stores.sandboxes.insertWithinLimits(aSandbox(teamID, { templateID }), defaultTeamLimits)
        const [first, deletion, second] = await Promise.allSettled([
          insert(),
          stores.templates.deleteUnused(templateID),
          insert(),
        ])
        const inserted = [first, second].filter(({ status }) => status === 'fulfilled').length
        assert.ok(deletion.status === 'fulfilled' && deletion.value)
        assert.equal('usedIn' in deletion.value, inserted > 0)
        const isThere = (await stores.templates.findByID(templateID)) !== undefined
        assert.deepEqual([isThere, inserted], isThere ? [true, 2] : [false, 0])
      }
    },
  )
}
