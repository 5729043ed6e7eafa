/**
 * The Helm chart agrees with the settings of Warren, with its own documentation and with the schemas of Kubernetes. Helm
 * itself is not needed: test/chart has what it makes of the chart, which test/long/chart.test.ts compares.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { parseAllDocuments } from 'yaml'
import { schema } from '../src/app/config/setting-schema.ts'
import { table } from '../src/cli/output.ts'
import { hashFile, hashOfSources, renderedFolder, valueNames } from './chart/chart-files.ts'
import { faultsOf, type Manifest } from './chart/kubernetes-schemas.ts'

const repoFolder = join(import.meta.dirname, '..')
const chartFolder = join(repoFolder, 'charts/warren')
const read = (...path: string[]) => readFileSync(join(...path), 'utf8')
const values = [...read(chartFolder, 'values.yaml').matchAll(/^(\w+):/gm)].map(([, name]) => name!)
const settings = Object.values(schema).map(({ name }): string => name)
const daemonSet = read(chartFolder, 'templates/daemonset.yaml')
const page = read(repoFolder, 'docs/kubernetes.md')

type Names = { enum: string[] }
type ValuesSchema = {
  properties: Record<string, { properties?: object }> & {
    settings: { propertyNames: Names }
    env: { items: { properties: { name: { not: Names } } } }
  }
}
const { properties } = JSON.parse(read(chartFolder, 'values.schema.json')) as ValuesSchema

const manifestsIn = (text: string): Manifest[] =>
  parseAllDocuments(text)
    .map((document) => document.toJS() as Manifest | null)
    .filter((manifest) => manifest !== null)
const rendered = (name: string) => manifestsIn(read(renderedFolder, `${name}.yaml`))

type PodSpec = {
  terminationGracePeriodSeconds: number
  containers: {
    env: { name: string; value?: string }[]
    lifecycle?: { preStop: { exec: { command: string[] } } }
  }[]
}
function podOf(name: string): PodSpec {
  const found = rendered(name).find(({ kind }) => kind === 'DaemonSet')
  return (found as unknown as { spec: { template: { spec: PodSpec } } }).spec.template.spec
}

test('every value of the chart has a schema and is documented on its page', () => {
  assert.deepEqual(
    Object.keys(properties)
      .filter((name) => name !== 'global')
      .sort(),
    [...values].sort(),
  )
  for (const value of values) {
    const parts = Object.keys(properties[value]?.properties ?? {})
    const paths = parts.length > 0 ? parts.map((part) => `${value}.${part}`) : [value]
    for (const path of paths) assert.match(page, new RegExp(`^\\| [^|]*\`${path}\``, 'm'), path)
  }
})

test('the templates of the chart use existing values and settings', () => {
  for (const file of globSync('templates/*', { cwd: chartFolder })) {
    const text = read(chartFolder, file)
    for (const [, name] of text.matchAll(/\.Values\.(\w+)/g))
      assert.ok(values.includes(name!), `${file}: ${name}`)
    for (const [, name] of text.matchAll(/name: (WARREN_\w+)/g))
      assert.ok(settings.includes(name!), `${file}: ${name}`)
  }
})

test('the values take every setting but those that the chart sets itself', () => {
  const own = [...daemonSet.matchAll(/name: (WARREN_\w+|MACHINE_ADDRESS)/g)].map(([, name]) => name!)
  const others = settings.filter((name) => !own.includes(name))
  assert.deepEqual(properties.settings.propertyNames.enum, others.sort())
  assert.deepEqual(properties.env.items.properties.name.not.enum.toSorted(), own.toSorted())
})

test('the rendered files belong to this chart', () => {
  const message = 'The chart has changed: run `bin/node test/chart/update.ts`, which needs Go.'
  assert.equal(read(hashFile).trim(), hashOfSources(), message)
})

test('Kubernetes knows every field of the rendered chart', () => {
  for (const name of valueNames) {
    const manifests = rendered(name)
    assert.ok(manifests.length >= 3, name)
    for (const manifest of manifests) assert.deepEqual(faultsOf(manifest), [], `${name}: ${manifest.kind}`)
  }
  assert.equal(rendered('all').length, 5)
})

test('the examples of the page are manifests that Kubernetes knows', () => {
  const blocks = [...page.matchAll(/^```yaml kubernetes\n([\s\S]*?)^```/gm)].map(([, text]) => text!)
  assert.ok(blocks.length > 0)
  for (const manifest of blocks.flatMap(manifestsIn)) assert.deepEqual(faultsOf(manifest), [], manifest.kind)
})

test('a manifest with an unknown field, a wrong type or a missing field is rejected', () => {
  const manifest = rendered('defaults').find(({ kind }) => kind === 'Service')!
  const { spec } = manifest as unknown as { spec: { ports: object[] } }
  const change = (changes: object): Manifest =>
    ({ ...manifest, spec: { ...spec, ...changes } }) as unknown as Manifest
  assert.match(faultsOf(change({ selektor: {} })).join(), /additional properties.*selektor/)
  assert.match(
    faultsOf(change({ ports: [{ port: 'http' }] })).join(),
    /\/spec\/ports\/0\/port must be integer/,
  )
  assert.match(faultsOf(change({ ports: [{ name: 'http' }] })).join(), /must have required property 'port'/)
  assert.match(faultsOf({ ...manifest, apiVersion: 'v2' }).join(), /has no v2 Service/)
})

test('no pod gets a variable twice, and Warren has time to close before Kubernetes kills it', () => {
  for (const name of valueNames) {
    const { containers, terminationGracePeriodSeconds: graceSeconds } = podOf(name)
    const [{ env, lifecycle }] = containers as [PodSpec['containers'][0]]
    const names = env.map((variable) => variable.name)
    assert.deepEqual(names, [...new Set(names)], name)
    const script = lifecycle?.preStop.exec.command.at(-1) ?? ''
    const number = (pattern: RegExp) => Number(pattern.exec(script)?.[1] ?? 0)
    const commands = [...script.matchAll(/timeout (\d+)/g)].reduce(
      (sum, [, seconds]) => sum + Number(seconds),
      0,
    )
    const hookSeconds = number(/\+ (\d+)\)\)$/m) + commands
    const delaySeconds = Number(env.find((one) => one.name === 'WARREN_STOP_DELAY_SECONDS')!.value)
    assert.equal(graceSeconds, hookSeconds + delaySeconds + 60, name)
  }
})

test('the end of a pod drains its machine, and says if the drain was not over in time', (context) => {
  const folder = mkdtempSync(join(tmpdir(), 'warren-chart-'))
  context.after(() => rmSync(folder, { recursive: true }))
  const nodeID = '8be1c7f0a59c5a3e95b11a4b3b6a2e11'
  writeFileSync(join(folder, 'node.json'), JSON.stringify({ nodeID }, null, 2))
  const stub = (lines: string) =>
    writeFileSync(join(folder, 'warren'), `#!/bin/sh\n${lines}\n`, { mode: 0o755 })
  const hook = podOf('all')
    .containers[0]!.lifecycle!.preStop.exec.command.at(-1)!
    .replaceAll('/opt/warren/bin/warren', join(folder, 'warren'))
    .replaceAll(/sleep \d+/g, 'sleep 0')
  const end = (script: string) =>
    spawnSync('sh', ['-euc', script], { encoding: 'utf8', env: { ...process.env, WARREN_DATA_DIR: folder } })
  const listed = (sandboxes: number) =>
    table(
      ['NODE', 'STATUS', 'SANDBOXES', 'CPU'],
      [
        ['0a24bd3b5ed0ee1e5c6ff4d70ec5f7f7', 'unhealthy', '0', ''],
        [nodeID, 'draining', String(sandboxes), '5 % of 2'],
      ],
    )
  // The first listing fails, the second has a sandbox, the third none.
  const count = `echo x >>${folder}/lists; n=$(wc -l <${folder}/lists)`
  const answers = `case $n in 1) exit 1 ;; 2) echo "${listed(10)}" ;; *) echo "${listed(0)}" ;; esac`
  stub(`echo "$*" >>${folder}/calls\n[ "$2" = list ] || exit 0\n${count}\n${answers}`)
  const drained = end(hook)
  assert.equal(drained.status, 0, drained.stderr)
  const calls = readFileSync(join(folder, 'calls'), 'utf8').trim().split('\n')
  assert.deepEqual(calls, [`node drain ${nodeID}`, 'node list', 'node list', 'node list'])

  stub(`echo "${listed(1)}"`)
  const late = end(hook.replace('+ 480))', '+ 0))'))
  assert.deepEqual(
    [late.status, late.stderr],
    [1, 'The drain was not over after 480 s: sandboxes still run on the machine.\n'],
  )
  stub('exit 1')
  assert.match(end(hook.replace('+ 480))', '+ 0))')).stderr, /could not be set to drain/)
})

test('the chart starts the image of the release that it belongs to', () => {
  const { version } = JSON.parse(read(repoFolder, 'package.json')) as { version: string }
  const chart = read(chartFolder, 'Chart.yaml')
  assert.match(chart, new RegExp(`^version: ${version}$`, 'm'))
  assert.match(chart, new RegExp(`^appVersion: ${version}$`, 'm'))
})
