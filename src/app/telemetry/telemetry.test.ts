import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { AppError } from '../../lib/app-error.ts'
import { ManualClock } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import { silentLog } from '../../lib/log.ts'
import { Measures } from '../../lib/measures.ts'
import { addConnectionGauges } from './connection-gauges.ts'
import { countDecisions, countWarmStarts } from './counters.ts'
import { OperationTracer } from './operation-tracer.ts'
import { createPrometheus } from './prometheus.ts'
import { countRequests } from './requests.ts'
import { addServerGauges } from './server-gauges.ts'
import { ServerHealth } from './server-health.ts'

const answered = {
  requestID: 'r1',
  method: 'GET',
  route: '/v2/sandboxes',
  params: {},
  teamID: 't1',
  status: 200,
  durationMs: 20,
}
const finished = {
  requestID: 'r2',
  method: 'GET',
  sandboxID: 'ione',
  port: 49983,
  target: 'agent' as const,
  status: 200,
  answeredMs: 3,
  totalMs: 5000,
}

function loggingTo(lines: object[]): Log {
  return { ...silentLog, info: (values) => void lines.push(values) }
}

test('operations are timed by outcome', async () => {
  const measures = new Measures()
  const tracer = new OperationTracer(measures, undefined)
  await tracer.trace('driver.start', {}, async () => 1)
  const full = async () => {
    throw new AppError('no_space', 'The disk is full.')
  }
  await assert.rejects(tracer.trace('driver.start', { 'warren.sandbox': 'ione' }, full), /full/)
  await assert.rejects(tracer.trace('driver.stop', {}, () => Promise.reject(new Error('x'))))
  const { text, contentType } = await createPrometheus(measures, silentLog)()
  assert.match(contentType, /^text\/plain; version=0\.0\.4/)
  assert.match(text, /# TYPE warren_operation_seconds histogram/)
  for (const [operation, outcome] of [
    ['driver.start', 'ok'],
    ['driver.start', 'no_space'],
    ['driver.stop', 'internal'],
  ]) {
    const labels = `operation="${operation}",outcome="${outcome}"`
    assert.ok(text.includes(`warren_operation_seconds_count{${labels}} 1\n`), `${labels}\n${text}`)
    assert.ok(text.includes(`warren_operation_seconds_bucket{le="+Inf",${labels}} 1\n`), labels)
  }
  assert.ok(!text.includes('ione'), 'what a client chose has become a label')
})

test("the metrics include the delay of Node's event loop and its memory", async () => {
  const { text } = await createPrometheus(new Measures(), silentLog)()
  for (const name of ['nodejs_eventloop_lag_p99_seconds', 'process_resident_memory_bytes']) {
    assert.match(text, new RegExp(`^${name} \\d`, 'm'))
  }
})

test('requests are counted by route and by target', async () => {
  const measures = new Measures()
  const { onAnswered, onFinished } = countRequests(measures, 'off', silentLog)
  onAnswered(answered)
  onAnswered({ ...answered, route: undefined, method: 'BREW', status: 404 })
  onFinished(finished)
  onFinished({ ...finished, status: 502, sandboxID: 'itwo', target: 'none' })
  onFinished({ ...finished, status: 101, target: 'service' })
  countDecisions(measures)('dns', false)
  countWarmStarts(measures)(true)
  const { text } = await createPrometheus(measures, silentLog)()
  const expected = [
    'warren_api_request_seconds_count{method="GET",route="/v2/sandboxes",code="200"} 1',
    'warren_api_request_seconds_count{method="other",route="none",code="404"} 1',
    'warren_edge_request_seconds_count{target="agent",code="2xx"} 1',
    'warren_edge_request_seconds_bucket{le="0.005",target="agent",code="2xx"} 1',
    'warren_edge_request_seconds_count{target="none",code="5xx"} 1',
    'warren_edge_tunnels_total{target="service"} 1',
    'warren_egress_decisions_total{protocol="dns",decision="rejected"} 1',
    'warren_warm_pool_takes_total{result="hit"} 1',
  ]
  for (const line of expected) assert.ok(text.includes(`${line}\n`), `${line}\n${text}`)
  assert.ok(!/BREW|ione|itwo/.test(text), 'what a client chose has become a label')
})

test('the access log has lines for no request, for failed ones, or for all', () => {
  for (const [setting, count] of [
    ['off', 0],
    ['errors', 2],
    ['all', 4],
  ] as const) {
    const lines: object[] = []
    const { onAnswered, onFinished } = countRequests(new Measures(), setting, loggingTo(lines))
    for (const status of [200, 404]) {
      onAnswered({ ...answered, status })
      onFinished({ ...finished, status })
    }
    assert.equal(lines.length, count, setting)
  }
})

test('a server whose database does not answer serves, and says since when it cannot be reached', async () => {
  const clock = new ManualClock()
  let asked = 0
  let isBroken = false
  const health = new ServerHealth({
    clock,
    log: silentLog,
    async askStore() {
      asked++
      if (isBroken) throw new Error('connect ECONNREFUSED 10.0.0.9:5432')
    },
  })
  assert.equal(await health.databaseProblem(), undefined)
  isBroken = true
  clock.advance(1000)
  const problem = `cannot be reached since ${new Date(clock.now()).toISOString()}`
  const answers = await Promise.all([health.databaseProblem(), health.databaseProblem()])
  assert.deepEqual(answers, [problem, problem])
  assert.equal(asked, 2, 'two requests at once are one query')
  clock.advance(1000)
  assert.equal(await health.databaseProblem(), problem, 'the time is that of the first failure')
  assert.equal(health.whyNotServing(), undefined)
  isBroken = false
  clock.advance(1000)
  assert.equal(await health.databaseProblem(), undefined)
  health.close()
  assert.equal(health.whyNotServing(), 'The server is closing.')
})

test('whoever cannot wait for a database that hangs gets the result of the check before', async () => {
  const clock = new ManualClock()
  const hanging = Promise.withResolvers<void>()
  const health = new ServerHealth({ clock, log: silentLog, askStore: () => hanging.promise })
  const answer = health.databaseProblem(500)
  clock.advance(500)
  assert.equal(await answer, undefined)
  hanging.reject(new Error('the connection broke'))
  assert.match((await health.databaseProblem())!, /^cannot be reached since /)
})

test('metrics that cannot be read are missing from the answer, and the others are there', async () => {
  const measures = new Measures()
  const failing = async () => {
    throw new AppError('unavailable', 'The database cannot be reached.')
  }
  measures.gauge({ name: 'warren_sandboxes', help: 'x', labelNames: [], read: failing })
  measures.gauge({
    name: 'warren_database_up',
    help: 'x',
    labelNames: [],
    read: () => [{ labels: [], value: 0 }],
  })
  const { text } = await createPrometheus(measures, silentLog)()
  assert.match(text, /^warren_database_up 0$/m)
  assert.doesNotMatch(text, /^warren_sandboxes/m)
})

test('the documentation of metrics and the Grafana dashboard use only metrics that exist', async () => {
  const measures = new Measures()
  new OperationTracer(measures, undefined)
  countRequests(measures, 'off', silentLog)
  countDecisions(measures)
  countWarmStarts(measures)
  addConnectionGauges(measures)
  let sums = 0
  addServerGauges(measures, {
    health: { databaseProblem: async () => 'cannot be reached since 2026-01-01T00:00:00.000Z' },
    stores: {
      sandboxes: {
        countByState: async () => [{ state: 'running', count: 2 }],
        async sumActive() {
          sums++
          return { cpuCount: 1, memoryMB: 512 }
        },
      } as never,
    },
    gpus: () => ({ model: 'M', total: 4, free: 1, mostPerSandbox: 4 }),
    admission: {
      waiting: 3,
      capacity: ({ cpuCount, memoryMB }) => ({
        freeCPU: 8 - cpuCount,
        freeMemoryMB: 1024 - memoryMB,
        starting: 4,
      }),
    },
    warm: { count: () => ({ ready: 1, booting: 0 }) },
    routes: { values: () => [].values() },
    freeBytes: async () => 5,
    diskGuard: { frozenCount: 2, counts: { frozen: 3, ended: 1 }, teamShares: [] },
    memoryGuard: {
      frozenCount: 1,
      counts: { frozen: 4, paused: 2, ended: 1 },
      teamShares: [{ teamID: 'greedy', usedBytes: 900, fairBytes: 500, aboveBytes: 100 }],
    },
    version: '1',
  })
  const { text } = await createPrometheus(measures, silentLog)()
  assert.match(text, /^warren_database_up 0$/m)
  assert.match(text, /^warren_sandboxes\{state="running"\} 2$/m)
  assert.match(text, /^warren_starts_waiting 3$/m)
  assert.match(text, /^warren_memory_free_bytes 536870912$/m)
  assert.match(text, /^warren_cpus_free 7$/m)
  assert.match(text, /^warren_gpus\{state="free"\} 1$/m)
  assert.match(text, /^warren_gpus\{state="in_use"\} 3$/m)
  assert.match(text, /^warren_memory_guard_acts\{act="pause"\} 2$/m)
  assert.match(text, /^warren_team_memory_bytes\{team="greedy",kind="above"\} 100$/m)
  assert.equal(sums, 1, 'the promised sizes are summed once')
  const known = new Set([...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name!))
  const docs = join(import.meta.dirname, '../../../docs')
  const page = readFileSync(join(docs, 'observe.md'), 'utf8')
  const board = readFileSync(join(docs, 'grafana/warren.json'), 'utf8')
  const used = [...`${page}${board}`.matchAll(/\b(?:warren|nodejs|process)_[a-z0-9_]+[a-z0-9]\b/g)]
  const names = used.map(([name]) => name.replace(/_(?:bucket|count|sum)$/, ''))
  assert.deepEqual([...new Set(names.filter((name) => !known.has(name) && !/_lag$/.test(name)))], [])
  for (const name of known) {
    if (name.startsWith('warren_')) assert.ok(page.includes(`\`${name}\``) || name === 'warren_info', name)
  }
})
