import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { built, forever, openBuilds, plain } from '../../../test/support/builds.ts'
import { addTeam, failsWith, gate, turning, until } from '../../../test/support/domain.ts'
import { connectionLost } from '../../../test/support/store-faults.ts'
import type { AppError } from '../../lib/app-error.ts'
import { tagsOf } from './build-service.ts'
import { BuildFailure, type BuildJob, type BuildResult } from './builder.ts'
import { parseTemplateReference } from './reference.ts'
import type { BuildStep } from './start-request.ts'

describe('requesting a build', () => {
  it('creates a private template of the team under a new name', async () => {
    await using world = await openBuilds()
    const { team, clock } = world.fixture
    const { template, build, names, tags } = await world.request('mine', ['v1', 'v2'])
    assert.deepEqual([template.teamID, template.public, template.isSnapshot], [team.teamID, false, false])
    assert.deepEqual(names, [{ namespace: 'alpha', alias: 'mine' }])
    assert.deepEqual(tags, ['v1', 'v2'])
    const { buildID, templateID, createdAt, finishedAt, ...rest } =
      (await world.fixture.stores.templates.findBuild(build.buildID))!
    assert.deepEqual([buildID, templateID], [build.buildID, template.templateID])
    assert.deepEqual([createdAt, finishedAt], [clock.now(), null])
    assert.deepEqual([rest.status, rest.envdVersion, rest.reason], ['waiting', '0.6.13', null])
    assert.deepEqual([rest.cpuCount, rest.memoryMB, rest.diskMB], [4, 256, 2048])
  })

  it('adds a build to the template of a known name', async () => {
    await using world = await openBuilds()
    const first = await world.request('mine', ['v1'])
    const second = await world.request('mine', ['v2'])
    assert.equal(second.template.templateID, first.template.templateID)
    assert.notEqual(second.build.buildID, first.build.buildID)
    assert.equal(await world.statusOf(first.build.buildID), 'waiting')
  })

  it('creates one template for requests with one new name at the same time', async () => {
    await using world = await openBuilds()
    const all = await Promise.all([1, 2, 3].map((tag) => world.request('mine', [`v${tag}`])))
    assert.equal(new Set(all.map(({ template }) => template.templateID)).size, 1)
  })

  it('creates a template of its own in each team', async () => {
    await using world = await openBuilds()
    const other = await addTeam(world.fixture, 'beta')
    const [mine, theirs] = [await world.request('same'), await world.request('same', ['default'], other)]
    assert.notEqual(mine.template.templateID, theirs.template.templateID)
    assert.deepEqual(theirs.names, [{ namespace: 'beta', alias: 'same' }])
    assert.equal(await world.statusOf(mine.build.buildID), 'waiting')
  })

  it('ends waiting builds with the same tag, and no others', async () => {
    await using world = await openBuilds()
    const { templates } = world.fixture.stores
    world.knobs.runs = forever
    const running = await world.begin('mine')
    const [old, apart] = [await world.request('mine', ['a', 'b']), await world.request('mine', ['c'])]
    const elsewhere = await world.request('other', ['a'])
    await world.request('mine', ['b', 'd'])
    const ended = await templates.findBuild(old.build.buildID)
    assert.equal(ended?.status, 'error')
    const message = 'The build was canceled because it was superseded by a newer one.'
    assert.deepEqual(ended?.reason, { message, step: null })
    assert.equal(await world.statusOf(apart.build.buildID), 'waiting')
    assert.equal(await world.statusOf(elsewhere.build.buildID), 'waiting')
    await world.request('mine')
    assert.equal(await world.statusOf(running.buildID), 'building')
    await world.builds.close()
  })
})

describe('starting a build', () => {
  it('cancels an older build in progress with the same tag, and no other', async () => {
    await using world = await openBuilds()
    world.knobs.runs = forever
    const begin = async (...tags: string[]) => {
      const { build } = await world.request('mine', tags)
      await world.builds.start(world.fixture.team, build.templateID, build.buildID, plain)
      return build
    }
    const [older, apart] = [await begin('a', 'b'), await begin('c')]
    const newer = await begin('b')
    await until(async () => (await world.statusOf(older.buildID)) === 'error')
    const { reason } = (await world.fixture.stores.templates.findBuild(older.buildID))!
    assert.match(reason!.message, /superseded by a newer one/)
    assert.deepEqual(
      [await world.statusOf(apart.buildID), await world.statusOf(newer.buildID)],
      ['building', 'building'],
    )
    await world.builds.close()
  })

  it('moves the build to building before it resolves, and then to ready with its results', async () => {
    await using world = await openBuilds()
    const { team, clock, stores } = world.fixture
    const go = gate()
    world.knobs.runs = async () => {
      await go.opened
      return built
    }
    const steps: BuildStep[] = [{ type: 'RUN', args: ['x'], filesHash: null, force: true }]
    const credentials = { type: 'registry', username: 'u', password: 'p' } as const
    const from = { image: 'debian:12', credentials }
    const service = { startCmd: 'serve', readyCmd: 'ready', force: true }
    const { buildID } = await world.begin('mine', { from, steps, ...service })
    assert.equal(await world.statusOf(buildID), 'building')
    const [{ build, teamID, source, ...rest }] = world.jobs as [BuildJob]
    assert.deepEqual([build.buildID, build.status, teamID, source], [buildID, 'building', team.teamID, from])
    assert.deepEqual(rest, { steps, ...service })
    clock.advance(5000)
    go.open()
    await world.ended(buildID)
    const row = (await stores.templates.findBuild(buildID))!
    assert.deepEqual([row.status, row.reason, row.finishedAt], ['ready', null, clock.now()])
    for (const key of Object.keys(built) as (keyof BuildResult)[]) assert.deepEqual(row[key], built[key])
    assert.equal((await world.fixture.catalog.resolve(team, 'mine')).build.buildID, buildID)
  })

  it('starts from the build that the name of the base template means now', async () => {
    await using world = await openBuilds()
    await world.begin('mine', { from: { template: 'base' } })
    assert.equal(
      (world.jobs[0]!.source as { build: { templateID: string } }).build.templateID,
      'basetemplate',
    )
    await assert.rejects(world.begin('other', { from: { template: 'nowhere' } }), failsWith('not_found'))
    const other = await addTeam(world.fixture, 'beta')
    await world.request('hidden', ['default'], other)
    await assert.rejects(
      world.begin('other', { from: { template: 'beta/hidden' } }),
      failsWith('permission_denied'),
    )
    assert.equal(world.jobs.length, 1)
  })

  it('is rejected if the build no longer waits', async () => {
    await using world = await openBuilds()
    const { team } = world.fixture
    const { templateID, buildID } = await world.begin('mine')
    const again = () => world.builds.start(team, templateID, buildID, plain)
    const waits = /^build is not in waiting state$/
    const refused = (error: AppError) => error.code === 'invalid_argument' && waits.test(error.message)
    await assert.rejects(again(), refused)
    await world.ended(buildID)
    await assert.rejects(again(), refused)
    const { build } = await world.request('mine')
    const both = [1, 2].map(() => world.builds.start(team, templateID, build.buildID, plain))
    const outcomes = (await Promise.allSettled(both)).map(({ status }) => status)
    assert.deepEqual(outcomes.sort(), ['fulfilled', 'rejected'])
    assert.equal(world.jobs.length, 2)
    await world.ended(build.buildID)
  })

  it('finds neither builds of other templates nor templates of other teams', async () => {
    await using world = await openBuilds()
    const { team } = world.fixture
    const [mine, another] = [await world.request('mine'), await world.request('another')]
    const other = await addTeam(world.fixture, 'beta')
    const { templateID } = mine.template
    const tries: [typeof team, string, string, string, RegExp][] = [
      [team, templateID, another.build.buildID, 'invalid_argument', /^Build '.*' not found$/],
      [team, templateID, 'b', 'invalid_argument', /^Build 'b' not found$/],
      [team, 'nothing', mine.build.buildID, 'not_found', /^Template nothing not found$/],
      [other, templateID, mine.build.buildID, 'permission_denied', /You don't have access/],
    ]
    for (const [who, template, buildID, code, says] of tries) {
      const refused = (error: AppError) => error.code === code && says.test(error.message)
      await assert.rejects(world.builds.start(who, template, buildID, plain), refused)
      await assert.rejects(world.builds.status(who, template, buildID), refused)
    }
    assert.equal(world.jobs.length, 0)
  })
})

describe('a build that fails', () => {
  it('has the reason and the step, with the last lines of that step', async () => {
    await using world = await openBuilds()
    world.knobs.runs = async (_, log) => {
      log({ level: 'info', message: 'of step 1', step: '1' })
      for (let number = 1; number <= 30; number++) {
        log({ level: 'info', message: `line ${number}`, step: '2' })
      }
      throw new BuildFailure('2', "failed to run command 'x': exit status 1")
    }
    const { templateID, buildID } = await world.begin('mine')
    await world.ended(buildID)
    const { build, entries, lastEntries } = await world.builds.status(world.fixture.team, templateID, buildID)
    assert.equal(build.status, 'error')
    assert.deepEqual(build.reason, { message: "failed to run command 'x': exit status 1", step: '2' })
    assert.equal(build.finishedAt, world.fixture.clock.now())
    assert.equal(entries.at(-1)?.message, "Build failed: failed to run command 'x': exit status 1")
    assert.equal(entries.at(-1)?.level, 'error')
    assert.deepEqual([lastEntries.length, lastEntries[0]?.message], [20, 'line 12'])
  })

  it('does not take the tag from a build that succeeded', async () => {
    await using world = await openBuilds()
    const good = await world.begin('mine')
    await world.ended(good.buildID)
    world.knobs.runs = async () => {
      throw new BuildFailure('base', 'there is no image')
    }
    const bad = await world.begin('mine')
    await world.ended(bad.buildID)
    const { build } = await world.fixture.catalog.resolve(world.fixture.team, 'mine')
    assert.equal(build.buildID, good.buildID)
  })

  it('ends with an error even if the fault is in Warren', async () => {
    await using world = await openBuilds()
    world.knobs.runs = async () => {
      throw new TypeError('cannot read x of undefined')
    }
    const { buildID } = await world.begin('mine')
    await world.ended(buildID)
    const message = 'Warren failed at this build: cannot read x of undefined'
    assert.deepEqual((await world.fixture.stores.templates.findBuild(buildID))?.reason, {
      message,
      step: null,
    })
  })

  it('ends when it is cancelled, and when Warren stops', async () => {
    await using world = await openBuilds()
    const { templates } = world.fixture.stores
    world.knobs.runs = forever
    const [one, two] = [await world.begin('one'), await world.begin('two')]
    await world.builds.cancel(one.buildID, 'nobody wants it')
    const reason = { message: 'nobody wants it', step: null }
    assert.deepEqual((await templates.findBuild(one.buildID))?.reason, reason)
    assert.equal(await world.statusOf(two.buildID), 'building')
    await world.builds.close()
    assert.match((await templates.findBuild(two.buildID))!.reason!.message, /Warren was stopped/)
    await world.builds.cancel(one.buildID, 'again')
    assert.deepEqual((await templates.findBuild(one.buildID))?.reason, reason)
  })

  it('ends after an hour', async () => {
    await using world = await openBuilds()
    world.knobs.runs = forever
    const { buildID } = await world.begin('mine')
    await until(async () => world.jobs.length === 1)
    world.fixture.clock.advance(3_600_000)
    await world.ended(buildID)
    const build = await world.fixture.stores.templates.findBuild(buildID)
    assert.match(build!.reason!.message, /took longer than an hour/)
  })

  it('does not recreate its template if that was deleted meanwhile', async () => {
    await using world = await openBuilds()
    const { remover, team, stores } = world.fixture
    const go = gate()
    world.knobs.runs = async () => {
      await go.opened
      return built
    }
    const { templateID, buildID } = await world.begin('mine')
    const removed = remover.remove(team, 'mine')
    await until(async () => (await stores.templates.findByID(templateID)) === undefined)
    go.open()
    await removed
    assert.equal(await stores.templates.findBuild(buildID), undefined)
    assert.equal(await stores.templates.findByID(templateID), undefined)
  })
})

describe('the log of a build in the service', () => {
  it('is empty while it waits, partial while it runs, and complete afterwards', async () => {
    await using world = await openBuilds()
    const { team } = world.fixture
    const go = gate()
    world.knobs.runs = async (_, log) => {
      log({ level: 'debug', message: 'at work', step: 'base' })
      await go.opened
      return built
    }
    const { template, build } = await world.request('mine')
    const { templateID } = template
    const read = async () => {
      const { entries, lastEntries } = await world.builds.status(team, templateID, build.buildID)
      assert.deepEqual(lastEntries, [])
      return entries.map(({ message }) => message)
    }
    assert.deepEqual(await read(), [])
    await world.builds.start(team, templateID, build.buildID, plain)
    const first = `Building template ${templateID}/${build.buildID}`
    assert.deepEqual(await read(), [first, 'at work'])
    world.fixture.clock.advance(2500)
    go.open()
    await world.ended(build.buildID)
    const all = [first, 'at work', 'Build finished, took 2.5s']
    assert.deepEqual(await read(), all)
    await world.builds.close()
    assert.deepEqual(await read(), all)
    // Nothing of it stays in memory.
    await world.logs.prune(Number.MAX_SAFE_INTEGER)
    assert.deepEqual(await read(), [])
  })
})

describe('a build whose database fails for a moment', () => {
  for (const [when, isDone] of [
    ['before a step took effect', false],
    ['after a step took effect', true],
  ] as const) {
    it(`starts and becomes ready all the same: ${when}`, async () => {
      await using world = await openBuilds()
      const { clock, stores } = world.fixture
      const { templates } = stores
      const transitionBuild = templates.transitionBuild.bind(templates)
      const failed = new Set<string>()
      templates.transitionBuild = async (buildID, from, to, changes) => {
        const isFirst = !failed.has(to)
        failed.add(to)
        if (isFirst && !isDone) throw connectionLost()
        const transitioned = await transitionBuild(buildID, from, to, changes)
        if (isFirst) throw connectionLost()
        return transitioned
      }
      const { buildID } = await turning(clock, world.begin('mine'))
      await turning(clock, world.ended(buildID))
      assert.equal(await world.statusOf(buildID), 'ready')
      assert.deepEqual(failed, new Set(['building', 'ready']))
    })
  }

  it('is ended by the next reconcile if its end could not be recorded', async () => {
    await using world = await openBuilds()
    const { clock, stores, logged } = world.fixture
    const { templates } = stores
    const transitionBuild = templates.transitionBuild.bind(templates)
    templates.transitionBuild = async (buildID, from, to, changes) => {
      if (to !== 'building') throw connectionLost()
      return transitionBuild(buildID, from, to, changes)
    }
    const { buildID } = await world.begin('mine')
    const isReported = async () =>
      logged.some(({ message }) => /end of a build could not be written/.test(message))
    await turning(clock, until(isReported))
    templates.transitionBuild = transitionBuild
    // It counts as carried out until its log is closed, a moment after it was told.
    await until(async () => {
      await world.builds.reconcile()
      return (await world.statusOf(buildID)) === 'error'
    })
  })
})

describe('reconciling builds', () => {
  it('ends at boot the builds of an earlier process', async () => {
    await using world = await openBuilds()
    world.knobs.runs = forever
    const { templateID, buildID } = await world.begin('mine')
    await world.builds.reconcile()
    assert.equal(await world.statusOf(buildID), 'building')
    const oldest = { direction: 'forward', limit: 1 } as const
    await until(async () => (await world.logs.read(buildID, oldest)).length === 1)
    await using next = await world.fixture.again()
    await next.builds.reconcile()
    const { build, entries } = await next.builds.status(next.team, templateID, buildID)
    assert.equal(build.status, 'error')
    assert.match(build.reason!.message, /^Warren was restarted, .* while this build was under way/)
    assert.equal(entries[0]?.message, `Building template ${templateID}/${buildID}`)
  })

  it('ends builds that waited for more than forty minutes', async () => {
    await using world = await openBuilds()
    const { clock, stores } = world.fixture
    const old = await world.request('old')
    clock.advance(20 * 60_000)
    const recent = await world.request('recent')
    await world.builds.reconcile()
    assert.equal(await world.statusOf(old.build.buildID), 'waiting')
    clock.advance(20 * 60_000 + 1)
    await world.builds.reconcile()
    const row = await stores.templates.findBuild(old.build.buildID)
    assert.deepEqual([row?.status, row?.finishedAt], ['error', clock.now()])
    assert.match(row!.reason!.message, /never started/)
    assert.equal(await world.statusOf(recent.build.buildID), 'waiting')
  })
})

describe('the tags of a request', () => {
  it('are those listed and the one in the name, or else the default', () => {
    const of = (name: string, ...listed: string[]) => tagsOf(parseTemplateReference(name), listed)
    assert.deepEqual(of('a'), ['default'])
    assert.deepEqual(of('a:default'), ['default'])
    assert.deepEqual(of('a:v1'), ['v1'])
    assert.deepEqual(of('a:v1', 'v2', 'v1', 'v2'), ['v1', 'v2'])
    assert.deepEqual(of('a', 'v2'), ['v2'])
    assert.deepEqual(of('a', 'v2', 'default'), ['v2', 'default'])
  })
})
