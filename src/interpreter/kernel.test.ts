import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { eventually } from '../../test/support/eventually.ts'
import { writeInterpreter } from '../app/templates/interpreter-files.ts'
import { type CellListener, Kernel } from './kernel.ts'
import { kernelKind } from './languages.ts'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

test('a kernel keeps no listener of a cell that has ended', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'warren-kernel-'))
  await writeInterpreter(folder)
  const kernel = new Kernel(kernelKind('bash')!, folder, '/tmp')
  try {
    await kernel.ready()
    const weakRefs: WeakRef<CellListener>[] = []
    for (let cell = 0; cell < 200; cell++) {
      const listener: CellListener = { onOutput: () => void listener, onEvent: () => void listener }
      weakRefs.push(new WeakRef(listener))
      assert.ok(await kernel.run({ code: ':', set: {}, restore: {} }, listener))
    }
    // What a cell wrote may come a moment after its end, so for that long its listener is needed.
    await eventually(() => {
      collectGarbage()
      const left = weakRefs.filter((one) => one.deref() !== undefined).length
      assert.ok(left <= 2, `${left} are held`)
    })
  } finally {
    kernel.kill()
    await kernel.ended
    rmSync(folder, { recursive: true, force: true })
  }
})

test('a cell for a kernel that has ended fails at once', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'warren-kernel-'))
  await writeInterpreter(folder)
  const kernel = new Kernel(kernelKind('bash')!, folder, '/tmp')
  await kernel.ready()
  kernel.kill()
  await kernel.ended
  const listener = { onOutput: () => {}, onEvent: () => {} }
  assert.equal(await kernel.run({ code: ':', set: {}, restore: {} }, listener), false)
  rmSync(folder, { recursive: true, force: true })
})
