/**
 * The agent leans on a few habits of Node and V8 that nobody promises. Each is tried here by
 * itself, so that an upgrade which ends one says so in words, and not as a slow or large agent.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { nodeFlags } from './node-flags.ts'

/** What a program prints that Node runs with the agent's own flags; imports are relative to this folder. */
function printedBy(source: string): string {
  const words = [...nodeFlags, '--input-type=module', '-e', source]
  return execFileSync(process.execPath, words, { cwd: import.meta.dirname, encoding: 'utf8' }).trim()
}

suite('what the agent relies on to stay small', () => {
  test('Node loads its HTTP client only for who touches the global Headers', () => {
    const isLoaded = "process.moduleLoadList.some((name) => name.includes('deps/undici/undici'))"
    assert.deepEqual(
      printedBy(`const before = ${isLoaded}; new Headers(); console.log(before, ${isLoaded})`),
      'false true',
      'Node loads the client behind Headers at another time than it did: see what brings 3 MB more into every agent.',
    )
  })
})

suite('what idle-memory.ts relies on', () => {
  test('a large buffer outside of the heap makes V8 collect everything at once', () => {
    const file = join(import.meta.dirname, 'idle-memory.ts')
    const source = `
      import { collectGarbage } from ${JSON.stringify(file)}
      const dead = Array.from({ length: 20 }, () => new WeakRef({ text: 'x'.repeat(1000) }))
      await new Promise(setImmediate)
      collectGarbage(3)
      console.log(dead.filter((one) => one.deref() === undefined).length)`
    assert.equal(
      printedBy(source),
      '20',
      'V8 no longer collects for memory outside of the heap: an idle agent keeps what it does not need. Find another way for collectGarbage in src/agent/idle-memory.ts (gc() of --expose-gc), and measure the memory of an idle agent.',
    )
  })
})

suite('what the code that V8 keeps relies on', () => {
  test('no flag of the agent makes V8 reject the compiled code that Node brings along', () => {
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

  test('V8 drops code after as many collections as idle-memory.ts sets it back to', () => {
    assert.match(
      execFileSync(process.execPath, ['--v8-options'], { encoding: 'utf8' }),
      /default: --bytecode-old-age=6\b/,
      'V8 drops unused code at another age than it did: say so in codeAge of src/agent/idle-memory.ts.',
    )
  })
})

suite('what spent-buffers.ts relies on', () => {
  test('V8 hands out its collector while it runs, and collects only the young generation when asked to', () => {
    const advice =
      'V8 no longer offers gc({ type: "minor" }) to a running process: streams make it collect its whole heap. Find another way in src/lib/spent-buffers.ts, or remove it and measure a large upload.'
    setFlagsFromString('--expose-gc')
    const gc = runInNewContext('gc') as unknown
    assert.equal(typeof gc, 'function', advice)
    assert.doesNotThrow(() => (gc as (options: object) => void)({ type: 'minor' }), advice)
  })
})

test('every flag of the agent is one that this Node knows', () => {
  assert.equal(
    printedBy('console.log(1)'),
    '1',
    'This Node rejects a flag of src/agent/node-flags.ts: see what took its place.',
  )
})
