/** Whether the tests of templates call every method that a client's builder has: a new release may bring more. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import * as current from 'e2b'
import * as older from 'e2b-2.45'
import { pythonClients } from './support/prepare-tests.ts'
import { pythonWith } from './support/python.ts'

/** These belong to the builder, but not to what its users call. */
const internal = ['constructor', 'collectStackTrace', 'build', 'instructionsWithHashes', 'serialize']
/** They ask no server. */
const local = ['toJSON', 'toDockerfile', 'to_json', 'to_dockerfile']

const textOf = (pattern: string) =>
  globSync(pattern, { cwd: import.meta.dirname })
    .map((file) => readFileSync(join(import.meta.dirname, file), 'utf8'))
    .join('\n')

function assertCalled(methods: readonly string[], text: string): void {
  assert.ok(methods.includes('copy') && methods.length > 30, `these are no builder's methods: ${methods}`)
  const unused = methods.filter(
    (name) => ![...internal, ...local].includes(name) && !text.includes(`.${name}(`),
  )
  assert.deepEqual(unused, [])
}

for (const [release, { Template }] of Object.entries({ current, older })) {
  test(`every builder method of the ${release} JavaScript client is called`, () => {
    const methods = Object.getOwnPropertyNames(Object.getPrototypeOf(Template()))
    assertCalled(methods, textOf('{e2e/template*.test.ts,support/image-builders.ts}'))
  })
}

const listMethods = `from e2b.template.main import TemplateBase, TemplateBuilder
names = {name for kind in (TemplateBase, TemplateBuilder) for name in vars(kind) if not name.startswith("_")}
print(" ".join(sorted(names)))`

for (const requirement of pythonClients) {
  test(`every builder method of ${requirement} for Python is called`, () => {
    const methods = execFileSync(pythonWith(requirement), ['-c', listMethods], { encoding: 'utf8' })
    assertCalled(methods.trim().split(' '), textOf('{e2e/python/templates,support/image_builders}.py'))
  })
}
