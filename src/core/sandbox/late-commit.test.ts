/** A commit that stalls in PostgreSQL, whose client has lost its connection, takes effect later all the same. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Client } from 'pg'
import { openFixture, request, turning, until } from '../../../test/support/domain.ts'
import { postgresForTests } from '../../../test/support/postgres.ts'
import { openLink } from '../../../test/support/severable-link.ts'
import { parseOwnName } from '../template/service.ts'

const { options, server } = postgresForTests()

/** Commits of new builds wait for this lock. */
const lock = 38
const stallCommits = `create function stall() returns trigger language plpgsql as
    $$ begin perform pg_advisory_xact_lock_shared(${lock}); return null; end $$;
  create constraint trigger stall after insert on template_builds deferrable initially deferred
    for each row execute function stall();
  select pg_advisory_lock(${lock})`
const stalled = `select 1 from pg_stat_activity where datname = current_database() and wait_event = 'advisory'`
/** Sessions that wait for a transaction whose commit stalls. */
const waitsBehind = `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
  and wait_event <> 'advisory'`

async function world() {
  const direct = new URL(await server().createDatabase())
  const socket = `${decodeURIComponent(direct.searchParams.get('host') ?? direct.hostname)}/.s.PGSQL.${direct.port || 5432}`
  const link = await openLink({ path: socket }, '127.0.0.1')
  const url = `postgres://${direct.username || 'warren'}@127.0.0.1:${link.port}${direct.pathname}`
  const fixture = await openFixture({ url })
  const { service, team, driver } = fixture
  const { sandboxID } = await service.create(team, request())
  const setMemory = (text: string) => driver.world.sandboxes.get(sandboxID)!.memory.set('m', text)
  const snapshot = () => service.snapshot(team, sandboxID, { name: parseOwnName(team, 'mine'), memory: true })
  const observer = new Client({ connectionString: direct.href })
  await observer.connect()
  const isAny = async (text: string) => ((await observer.query(text)).rowCount ?? 0) > 0
  return {
    fixture,
    link,
    setMemory,
    snapshot,
    stall: () => observer.query(stallCommits),
    goOn: () => observer.query(`select pg_advisory_unlock(${lock})`),
    untilStalled: () => until(() => isAny(stalled)),
    isOtherWaiting: () => isAny(waitsBehind),
    untilCommitted: () => until(async () => !(await isAny(stalled))),
    async memoryOfMine() {
      const made = await service.create(team, request({ template: 'mine' }))
      return driver.world.sandboxes.get(made.sandboxID)?.memory.get('m')
    },
    async [Symbol.asyncDispose]() {
      await observer.end()
      await fixture[Symbol.asyncDispose]()
      link.close()
    },
  }
}

test('a snapshot succeeds if its commit stalls and its connection is cut once', options, async () => {
  await using one = await world()
  const { fixture, link } = one
  one.setMemory('first')
  await one.snapshot()
  one.setMemory('second')
  await one.stall()
  const snapshotting = turning(fixture.clock, one.snapshot())
  await one.untilStalled()
  link.cut()
  link.mend()
  await until(one.isOtherWaiting)
  await one.goOn()
  await snapshotting
  assert.equal(await one.memoryOfMine(), 'second')
})

test('a snapshot whose request failed while its commit stalled has its bytes', options, async () => {
  await using one = await world()
  const { fixture, link } = one
  one.setMemory('first')
  await one.snapshot()
  one.setMemory('second')
  await one.stall()
  let hasFailed = false
  const snapshotting = turning(fixture.clock, one.snapshot()).catch(() => {
    hasFailed = true
  })
  await one.untilStalled()
  link.cut()
  link.mend()
  // Each further try waits for the stalled commit, until its connection is cut as well.
  await until(async () => {
    if (!hasFailed && (await one.isOtherWaiting())) {
      link.cut()
      link.mend()
    }
    return hasFailed
  })
  await snapshotting
  await fixture.reconciler.run()
  await one.goOn()
  await one.untilCommitted()
  await fixture.reconciler.run()
  assert.equal(await one.memoryOfMine(), 'second')
  assert.deepEqual(await fixture.quarantine.list(), [])
})
