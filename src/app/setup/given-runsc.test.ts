import assert from 'node:assert/strict'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { examineGiven } from './given-runsc.ts'
import { installGiven } from './gvisor.ts'
import { createProgress } from './progress.ts'

const folder = mkdtempSync(join(tmpdir(), 'warren-given-'))
after(() => rmSync(folder, { recursive: true }))

function program(script: string): string {
  const path = join(folder, 'runsc')
  writeFileSync(path, `#!/bin/sh\n${script}\n`)
  chmodSync(path, 0o755)
  return path
}

test('a program that is missing, no runsc or too old is rejected with what to do', async () => {
  await assert.rejects(examineGiven(join(folder, 'none')), /WARREN_RUNSC is .*none, which does not exist/)
  await assert.rejects(examineGiven(program('echo hello')), /is no runsc/)
  await assert.rejects(examineGiven(program('echo broken >&2; exit 3')), /does not run here: .*broken/)
  await assert.rejects(
    examineGiven(program('echo runsc version release-20260302.0')),
    /release-20260302\.0: Warren needs release-20260601 or newer/,
  )
})

test('a foreign build is installed under a name of its own, so that its snapshots find it', async () => {
  const said: string[] = []
  const given = program('echo runsc version release-20260907.0')
  const { path } = await installGiven(
    given,
    join(folder, 'runtimes'),
    createProgress({ write: (text) => void said.push(text) }),
  )
  assert.match(path, /\/runsc-given-[0-9a-f]{12}\/runsc$/)
  assert.match(said.join(''), /as WARREN_RUNSC says: a foreign build/)
})
