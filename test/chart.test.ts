/** The Helm chart agrees with the settings of Warren and with its own documentation. Helm itself is not needed. */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { schema } from '../src/app/setting-schema.ts'

const repoFolder = join(import.meta.dirname, '..')
const chartFolder = join(repoFolder, 'charts/warren')
const read = (...path: string[]) => readFileSync(join(...path), 'utf8')
const values = [...read(chartFolder, 'values.yaml').matchAll(/^(\w+):/gm)].map(([, name]) => name!)

test('every value of the chart has a schema and is documented on its page', () => {
  type Schema = { properties: Record<string, { properties?: object }> }
  const { properties } = JSON.parse(read(chartFolder, 'values.schema.json')) as Schema
  assert.deepEqual(
    Object.keys(properties)
      .filter((name) => name !== 'global')
      .sort(),
    [...values].sort(),
  )
  const page = read(repoFolder, 'docs/kubernetes.md')
  for (const value of values) {
    const parts = Object.keys(properties[value]?.properties ?? {})
    const paths = parts.length > 0 ? parts.map((part) => `${value}.${part}`) : [value]
    for (const path of paths) assert.match(page, new RegExp(`^\\| [^|]*\`${path}\``, 'm'), path)
  }
})

test('the templates of the chart use existing values and settings', () => {
  const settings = new Set<string>(Object.values(schema).map(({ name }) => name))
  for (const file of globSync('templates/*', { cwd: chartFolder })) {
    const text = read(chartFolder, file)
    for (const [, name] of text.matchAll(/\.Values\.(\w+)/g))
      assert.ok(values.includes(name!), `${file}: ${name}`)
    for (const [, name] of text.matchAll(/name: (WARREN_\w+)/g))
      assert.ok(settings.has(name!), `${file}: ${name}`)
  }
})

test('the chart starts the image of the release that it belongs to', () => {
  const { version } = JSON.parse(read(repoFolder, 'package.json')) as { version: string }
  const chart = read(chartFolder, 'Chart.yaml')
  assert.match(chart, new RegExp(`^version: ${version}$`, 'm'))
  assert.match(chart, new RegExp(`^appVersion: ${version}$`, 'm'))
})
