import assert from 'node:assert/strict'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import test, { type TestContext } from 'node:test'
import { findOlderRunsc, findRunsc, installRunsc } from './gvisor.ts'
import { builtVersion } from './gvisor-build.ts'
import { createProgress } from './progress.ts'

const quiet = createProgress({ write: () => {} })

function foldersFor(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'warren-runsc-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return { runtimes: join(folder, 'runtimes'), cache: join(folder, 'cache') }
}

function putRunsc(parent: string, version: string, script: string): string {
  const path = join(parent, `runsc-${version}`, 'runsc')
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, script, { mode: 0o755 })
  return path
}

test('a runsc in the cache is copied to where everybody may run it, without any download', async (t) => {
  const { runtimes, cache } = foldersFor(t)
  putRunsc(cache, builtVersion, '#!/bin/sh\necho works\n')
  const installed = await installRunsc(runtimes, cache, quiet)
  assert.ok('path' in installed)
  assert.equal(installed.path, findRunsc(runtimes))
  assert.equal(statSync(installed.path).mode & 0o777, 0o755)
})

test('the newest build of an earlier Warren is used if that of this Warren is not available', async (t) => {
  const { runtimes, cache } = foldersFor(t)
  const said: string[] = []
  const heard = createProgress({ write: (text) => void said.push(text) })
  const oldest = putRunsc(runtimes, 'of-the-year-before', '')
  utimesSync(oldest, 1, 1)
  const older = putRunsc(runtimes, 'of-last-month', '')
  assert.deepEqual(await installRunsc(runtimes, cache, heard, async () => 'There is no network.'), {
    path: older,
  })
  assert.match(
    said.join(''),
    /go on with an older gVisor, runsc-of-last-month.* There is no network\. The next start with network gets it/s,
  )
  const own = putRunsc(cache, builtVersion, '#!/bin/sh\n')
  const installed = await installRunsc(runtimes, cache, heard)
  assert.ok('path' in installed && installed.path.endsWith(own.slice(cache.length)))
  assert.equal(findOlderRunsc(runtimes), older)
})

test('a runsc that does not run is not installed', async (t) => {
  const { runtimes, cache } = foldersFor(t)
  putRunsc(cache, builtVersion, '#!/bin/sh\nexit 1\n')
  await assert.rejects(installRunsc(runtimes, cache, quiet))
  assert.equal(findRunsc(runtimes), undefined)
  assert.equal(existsSync(join(runtimes, `runsc-${builtVersion}`, 'runsc')), false)
})

test('a start removes the unfinished files of an earlier start, and none of a start that still runs', async (t) => {
  const { runtimes, cache } = foldersFor(t)
  putRunsc(cache, builtVersion, '#!/bin/sh\n')
  const folder = join(runtimes, `runsc-${builtVersion}`)
  // 2^22 is the most that the kernel gives as a process id.
  for (const name of ['runsc.4194305.partial-go', `runsc.${process.ppid}.partial-go`])
    mkdirSync(join(folder, name, 'bin'), { recursive: true })
  await installRunsc(runtimes, cache, quiet)
  assert.deepEqual(readdirSync(folder).sort(), ['runsc', `runsc.${process.ppid}.partial-go`])
})

test('gVisor is neither built nor used on a kernel with larger pages, on which it does not run', async (t) => {
  const { runtimes, cache } = foldersFor(t)
  putRunsc(cache, builtVersion, '#!/bin/sh\n')
  const unwanted = async () => assert.fail('it was compiled')
  assert.deepEqual(await installRunsc(runtimes, cache, quiet, unwanted, 65_536), {
    missing: 'gVisor needs memory pages of 4 kB, and the kernel here has 64 kB.',
  })
})
