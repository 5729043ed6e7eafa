import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type PlanOptions, planRun } from './support/plan.ts'

const file = (path: string, source = '') => ({ path, source })
const plan = (options: Partial<PlanOptions>) =>
  planRun({ files: [], isolations: ['container', 'gvisor'], times: {}, unitGroups: 2, ...options })
const names = (files: { name: string }[]) => files.map(({ name }) => name)

test('a file with real sandboxes runs under each isolation that it names, or else under the first', () => {
  const both = 'for (const isolation of isolations) startWarren(isolation)'
  const { whole, units } = plan({
    files: [
      file('test/e2e/both.test.ts', both),
      file('test/security/one.test.ts', `startWarren('container')`),
      file('src/drivers/oci/oci-driver.test.ts', 'of isolations'),
      file('src/drivers/host/slot/slots.test.ts'),
    ],
  })
  assert.deepEqual(names(whole), [
    'test/e2e/both.test.ts (container)',
    'test/e2e/both.test.ts (gvisor)',
    'test/security/one.test.ts (container)',
    'src/drivers/oci/oci-driver.test.ts (container)',
    'src/drivers/oci/oci-driver.test.ts (gvisor)',
  ])
  assert.deepEqual(units.map(names), [['src/drivers/host/slot/slots.test.ts']])
})

test('with one isolation chosen everything runs there', () => {
  const { whole } = plan({ files: [file('test/e2e/one.test.ts')], isolations: ['gvisor'] })
  assert.deepEqual(names(whole), ['test/e2e/one.test.ts (gvisor)'])
})

test('only files that never start a Warren themselves share one, and they run first', () => {
  const files = [
    file('test/e2e/starts-too.test.ts', 'joinWarren(isolation); startWarren(isolation, { keep: true })'),
    file('test/e2e/joins.test.ts', 'joinWarren(isolation)'),
  ]
  assert.deepEqual(
    plan({ files }).whole.map(({ path, joins }) => [path, joins]),
    [
      ['test/e2e/joins.test.ts', true],
      ['test/e2e/starts-too.test.ts', false],
    ],
  )
})

test('the longest files run first, and files without a measurement before them', () => {
  const files = ['a', 'b', 'c'].map((name) => file(`test/e2e/${name}.test.ts`))
  const times = { 'test/e2e/a.test.ts (container)': 1, 'test/e2e/b.test.ts (container)': 20 }
  assert.deepEqual(names(plan({ files, times }).whole), [
    'test/e2e/c.test.ts (container)',
    'test/e2e/b.test.ts (container)',
    'test/e2e/a.test.ts (container)',
  ])
})

test('unit tests are shared out in groups of the same length', () => {
  const files = ['a', 'b', 'c', 'd'].map((name) => file(`src/${name}.test.ts`))
  const times = { 'src/a.test.ts': 1, 'src/b.test.ts': 9, 'src/c.test.ts': 4, 'src/d.test.ts': 5 }
  assert.deepEqual(plan({ files, times }).units.map(names), [
    ['src/b.test.ts', 'src/a.test.ts'],
    ['src/d.test.ts', 'src/c.test.ts'],
  ])
})

test('a unit test that disturbs others has a process of its own', () => {
  const files = [
    file('src/a.test.ts', 'suite(() => {\n  beforeEach(() => {})'),
    file('test/images.test.ts'),
    file('src/b.test.ts', 'afterEach(() => {})'),
    file('src/c.test.ts'),
  ]
  assert.deepEqual(plan({ files, unitGroups: 1 }).units.map(names), [
    ['test/images.test.ts'],
    ['src/b.test.ts'],
    ['src/a.test.ts', 'src/c.test.ts'],
  ])
})

test('a unit test whose tests all lie in the file of a suite has a process of its own', () => {
  const files = [
    file('src/a.test.ts', "storeSuite('SQLite')"),
    file('src/b.test.ts', "storeSuite('SQLite')\ntest('closes', () => {})"),
    file('src/c.test.ts'),
  ]
  assert.deepEqual(plan({ files, unitGroups: 1 }).units.map(names), [
    ['src/a.test.ts'],
    ['src/b.test.ts', 'src/c.test.ts'],
  ])
})

test('a file that uses the outside world has the lock for that, and runs before files that share a Warren', () => {
  const files = [
    file('test/e2e/joins.test.ts', 'joinWarren(isolation)'),
    file('test/e2e/net.test.ts', 'new NamedWorld([])'),
  ]
  assert.deepEqual(
    plan({ files }).whole.map(({ path, lock }) => [path, lock]),
    [
      ['test/e2e/net.test.ts', 'outside'],
      ['test/e2e/joins.test.ts', undefined],
    ],
  )
})

test('a long run has only files that count or take minutes', () => {
  const files = [
    file('test/long/desktop.test.ts'),
    file('test/chaos/leaks.test.ts', 'countOf({ short: 1, long: 2 })'),
    file('test/e2e/x.test.ts'),
    file('src/y.test.ts'),
  ]
  const { whole, units } = plan({ files, long: true })
  assert.deepEqual(names(whole).sort(), [
    'test/chaos/leaks.test.ts (container)',
    'test/long/desktop.test.ts (container)',
  ])
  assert.deepEqual(units, [])
})

test('slow files take turns: one isolation of those that name both, every second one of the others', () => {
  const files = [
    file('test/e2e/a-pair.test.ts', 'of isolations'),
    file('test/e2e/b-pair.test.ts', 'of isolations'),
    file('test/e2e/quick-pair.test.ts', 'of isolations'),
    ...['c', 'd', 'e', 'new', 'quick'].map((name) => file(`test/e2e/${name}.test.ts`)),
    file('src/slow.test.ts'),
  ]
  const times = {
    'test/e2e/a-pair.test.ts (container)': 30,
    'test/e2e/a-pair.test.ts (gvisor)': 30,
    'test/e2e/b-pair.test.ts (container)': 20,
    'test/e2e/b-pair.test.ts (gvisor)': 20,
    'test/e2e/quick-pair.test.ts (container)': 1,
    'test/e2e/quick-pair.test.ts (gvisor)': 1,
    'test/e2e/c.test.ts (container)': 50,
    'test/e2e/d.test.ts (container)': 40,
    'test/e2e/e.test.ts (container)': 30,
    'test/e2e/quick.test.ts (container)': 1,
    'src/slow.test.ts': 100,
  }
  const always = ['new', 'quick', 'quick-pair'].map((name) => `test/e2e/${name}.test.ts (container)`)
  const turns = ([0, 1] as const).map((turn) => plan({ files, times, turn }))
  const [first, second] = turns.map(({ whole }) =>
    names(whole).filter((name) => !always.includes(name) && !name.includes('quick')),
  )
  assert.deepEqual(first!.sort(), [
    'test/e2e/a-pair.test.ts (container)',
    'test/e2e/b-pair.test.ts (gvisor)',
    'test/e2e/c.test.ts (container)',
    'test/e2e/e.test.ts (container)',
  ])
  assert.deepEqual(second!.sort(), [
    'test/e2e/a-pair.test.ts (gvisor)',
    'test/e2e/b-pair.test.ts (container)',
    'test/e2e/d.test.ts (container)',
  ])
  for (const { whole, units, postponed } of turns) {
    for (const name of always) assert.ok(names(whole).includes(name), name)
    assert.deepEqual(units.map(names), [['src/slow.test.ts']])
    assert.equal(whole.length + postponed.length, plan({ files, times }).whole.length)
  }
})

test('a run without a turn postpones nothing', () => {
  const files = [file('test/e2e/a.test.ts'), file('test/e2e/b.test.ts')]
  const times = { 'test/e2e/a.test.ts (container)': 50, 'test/e2e/b.test.ts (container)': 50 }
  const { whole, postponed } = plan({ files, times })
  assert.deepEqual([whole.length, postponed.length], [2, 0])
})
