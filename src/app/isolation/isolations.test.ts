/**
 * Follows the checklist of docs/checklists.md for a driver of an example isolation, and counts the files that name one:
 * what reads the table needs no change for another isolation.
 */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import type { ProbeResult } from '../../core/ports/driver.ts'
import { FakeDriver } from '../../drivers/fake/fake-driver.ts'
import { isAppError } from '../../lib/app-error.ts'
import { isolationIn } from '../config/settings.ts'
import { StartRefusal } from '../process/start-refusal.ts'
import { ok } from '../setup/finding.ts'
import { chooseIsolation } from './choose-isolation.ts'
import type { DriverParts, IsolationRuntime } from './isolation-runtime.ts'
import { type Isolation, type IsolationName, isolations, namesOf } from './isolations.ts'

const root = join(import.meta.dirname, '../../..')
const parts = {} as DriverParts
const unusable: ProbeResult = { usable: false, reason: 'no hardware for it', remedy: 'Buy some.' }

/** An isolation whose driver is the fake one: its folder is `src/drivers/fake`, which runs the suites of drivers. */
function example(probe: ProbeResult, closed: string[] = []): Isolation {
  const runtime: IsolationRuntime = {
    install: async () => ({ program: '/example' }),
    find: () => '/example',
    createDriver() {
      const driver = new FakeDriver()
      driver.probeResult = probe
      driver.close = async () => void closed.push('example')
      return driver
    },
    examine: async () => ok('examined'),
  }
  return {
    label: 'Example',
    longLabel: 'example machines',
    aliases: ['examples'],
    protection: 'each sandbox is an example',
    weakness: 'Examples isolate less: they only look like walls.',
    remedy: null,
    runtimeLabel: 'example',
    loadRuntime: async () => runtime,
  }
}

const usable: ProbeResult = { usable: true, detail: 'it works' }
const strong = (probe: ProbeResult): Isolation => ({ ...example(probe), label: 'Strong', weakness: null })
const installed = { program: '/example' }

describe('an isolation added to the table', () => {
  it('is a value of the setting, by its name and its aliases', () => {
    const setting = isolationIn({ ...isolations, example: example(usable) })
    assert.equal(setting.parse('example'), 'example')
    assert.equal(setting.parse('examples'), 'example')
    assert.equal(setting.allowed, 'one of auto, gvisor, container (or containers), example (or examples)')
    assert.equal(setting.parse('toString'), undefined)
  })

  it('is chosen by its name, and by `auto` where no stronger one works', async () => {
    const closed: string[] = []
    const table = {
      strong: { ...strong(unusable), loadRuntime: example(unusable, closed).loadRuntime },
      example: example(usable),
    }
    const runtimes = { strong: installed, example: installed }
    const byName = await chooseIsolation('example', runtimes, parts, table)
    assert.deepEqual([byName.isolation, byName.driver.name, byName.fallback], ['example', 'fake', undefined])
    const auto = await chooseIsolation('auto', runtimes, parts, table)
    assert.equal(auto.isolation, 'example')
    assert.deepEqual(closed, ['example'], 'the driver that was refused is closed')
    assert.equal(
      auto.fallback?.warning,
      'Each sandbox is an example, because Strong does not work here: no hardware for it. Buy some. ' +
        'Examples isolate less: they only look like walls. `warren doctor` says more. ' +
        'WARREN_ISOLATION=strong never starts without Strong; WARREN_ISOLATION=example accepts Example and ends this warning.',
    )
    assert.deepEqual(auto.fallback?.notice, {
      what: 'Sandboxes on this server are example machines, because Strong does not work on it.',
      weakness: 'Examples isolate less: they only look like walls.',
    })
  })

  it('is never replaced by a weaker one if the operator named it', async () => {
    const table = { strong: strong(unusable), example: example(usable) }
    await assert.rejects(
      chooseIsolation('strong', { strong: installed, example: installed }, parts, table),
      (error) =>
        isAppError(error, 'unavailable') &&
        /WARREN_ISOLATION is strong, but Strong does not work here: no hardware .*=example uses example machines\.$/.test(
          error.message,
        ),
    )
    await assert.rejects(
      chooseIsolation('strong', { strong: { missing: 'It is away.' } }, parts, table),
      /does not work here: It is away\. /,
    )
    const last = chooseIsolation('example', { example: installed }, parts, {
      strong: strong(usable),
      example: example(unusable),
    })
    await assert.rejects(
      last,
      (error) => error instanceof StartRefusal && /no hardware for it\. Buy some\.$/.test(error.message),
    )
  })

  it('does not compile without a part of its entry', () => {
    const { label: _, ...rest } = example(usable)
    // @ts-expect-error: people need a label for it.
    const incomplete: Isolation = rest
    assert.ok(incomplete)
    // @ts-expect-error: a name that is not in the table.
    const unknown: IsolationName = 'example'
    assert.ok(!namesOf(isolations).some((name) => name === unknown))
  })
})

describe('the isolations of the table', () => {
  it('are named in three files at most outside the folder of their driver, tests aside', () => {
    const names = namesOf(isolations).join('|')
    const named = new RegExp(`['"](?:${names})['"]|^ {2}(?:${names}): \\{|drivers/oci/oci-driver\\.ts`, 'm')
    const naming = sourceFiles().filter((path) => named.test(readFileSync(join(root, path), 'utf8')))
    const own = namesOf(isolations).map((name) => `src/app/isolation/${name}.ts`)
    assert.deepEqual(naming.sort(), [...own, 'src/app/isolation/isolations.ts'].sort())
    const documented = checklist().filter((path) => !path.startsWith('src/drivers'))
    // The table, the file of the isolation, and its column in the documentation.
    assert.deepEqual(documented, ['src/app/isolation/isolations.ts', 'docs/isolation.md'])
  })

  it('have a column each in the documentation', () => {
    const columns = namesOf(isolations).map((name) => {
      const { label, aliases } = isolations[name] as Isolation
      return `${label} (${[name, ...aliases].map((each) => `\`${each}\``).join(' or ')})`
    })
    const page = readFileSync(join(root, 'docs/isolation.md'), 'utf8')
    assert.ok(page.includes(`| | ${columns.join(' | ')} |`), columns.join(' | '))
  })

  it('differ in all that people read of them, and only the strongest has no weakness', () => {
    const entries: Isolation[] = Object.values(isolations)
    for (const key of ['label', 'longLabel', 'protection', 'runtimeLabel'] as const)
      assert.equal(new Set(entries.map((entry) => entry[key])).size, entries.length, key)
    assert.deepEqual(
      entries.map(({ weakness }) => weakness === null),
      entries.map((_, index) => index === 0),
    )
  })
})

/** The files of src without tests and the folder of the driver. */
function sourceFiles(): string[] {
  return readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
    .map((path) => join('src', path))
    .filter((path) => /\.tsx?$/.test(path) && !/\.test\.ts$|\/suite\/|-(?:suite|fixture)\.ts$/.test(path))
    .filter((path) => !path.startsWith('src/drivers/oci/'))
}

/** The files and folders that the checklist of a driver names. */
function checklist(): string[] {
  const text = readFileSync(join(root, 'docs/checklists.md'), 'utf8')
  const [section = ''] = /\*\*Add a driver\.\*\*[\s\S]*?\n\n/.exec(text) ?? []
  const paths = [...section.matchAll(/`((?:src|docs)\/[^`]+)`/g)].map(([, path]) => path!)
  for (const path of paths) assert.ok(existsSync(join(root, path)), `${path} of the checklist does not exist`)
  return paths.filter((path) => !/driver.ts$|\.test\.ts$/.test(path))
}
