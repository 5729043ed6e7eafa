import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'

const folder = mkdtempSync(join(tmpdir(), 'warren-namespaces-'))
after(() => rmSync(folder, { recursive: true }))

const makeNamespace = `
import { writeFileSync } from 'node:fs'
import { makeNamespace } from '${import.meta.dirname}/namespace-calls.ts'
writeFileSync('${folder}/kept', '')
makeNamespace('mounts', '${folder}/kept', () => {})`

test('a mount namespace is kept on whichever CPUs its maker and the maker’s namespace were created', () => {
  const cpus = [...Array(Math.min(availableParallelism(), 4)).keys()].map(String)
  for (const ofContainer of cpus) {
    for (const ofSlot of cpus) {
      const container = ['taskset', '-c', ofContainer, 'unshare', '--mount', '--propagation', 'private']
      const slot = ['taskset', '-c', ofSlot, process.execPath, '--input-type=module', '--eval', makeNamespace]
      const [program, ...args] = [...container, ...slot]
      const { status, stderr } = spawnSync(program!, args, { encoding: 'utf8' })
      assert.equal(status, 0, `${ofContainer}, then ${ofSlot}: ${stderr}`)
    }
  }
})
