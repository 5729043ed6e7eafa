/**
 * The agent leans on a few habits of Node and V8 that nobody promises. Each is tried here by
 * itself, so that an upgrade which breaks one fails here, and does not make the agent slow or large.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { suite, test } from 'node:test'
import { nodeFlags } from './node-flags.ts'

/** What a program prints that Node runs with the agent's own flags; imports are relative to this folder. */
function printedBy(source: string): string {
  const words = [...nodeFlags, '--input-type=module', '-e', source]
  return execFileSync(process.execPath, words, { cwd: import.meta.dirname, encoding: 'utf8' }).trim()
}

suite('assumptions that keep the agent small', () => {
  test('Node loads its HTTP client only when a program touches the global Headers', () => {
    const isLoaded = "process.moduleLoadList.some((name) => name.includes('deps/undici/undici'))"
    assert.deepEqual(
      printedBy(`const before = ${isLoaded}; new Headers(); console.log(before, ${isLoaded})`),
      'false true',
      'Node loads the client behind Headers at another time than it did: see what brings 3 MB more into every agent.',
    )
  })
})

suite("assumptions about V8's code cache", () => {
  test('no flag of the agent makes V8 reject the compiled code inside Node', () => {
    const source = `
      const { internalBinding } = require('internal/test/binding')
      require('node:http')
      console.log(internalBinding('builtins').getCacheUsage().compiledWithoutCache.size)`
    const words = [...nodeFlags, '--no-warnings', '--expose-internals', '-e', source]
    assert.equal(
      execFileSync(process.execPath, words, { encoding: 'utf8' }).trim(),
      '0',
      'A flag of src/agent/node-flags.ts makes every agent compile the modules of Node at its start, which takes 10 ms.',
    )
  })
})

test('this Node knows every flag of the agent', () => {
  assert.equal(
    printedBy('console.log(1)'),
    '1',
    'This Node rejects a flag of src/agent/node-flags.ts: see what took its place.',
  )
})
