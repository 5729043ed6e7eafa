import assert from 'node:assert/strict'
import { appendFileSync, chmodSync, copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { loadConfig } from '../config/config.ts'
import { findRunsc } from '../setup/gvisor.ts'
import { gvisorRuntime } from './gvisor.ts'

const folder = mkdtempSync(join(tmpdir(), 'warren-gvisor-'))
after(() => rmSync(folder, { recursive: true }))
const settings = { ...loadConfig({}), dataDir: folder }
const own = findRunsc(settings.cacheDir)

test("the doctor rejects a program that is no runsc, and warns of a build that is not Warren's", async (t) => {
  const examine = (runsc: string) => gvisorRuntime.examine({ ...settings, runsc }, false)
  const none = await examine('/bin/true')
  assert.deepEqual([none.status, /is no runsc/.test(none.text)], ['fail', true])
  assert.match(none.remedy!, /Unset WARREN_RUNSC/)
  if (own === undefined) return t.skip('no gVisor was built here')
  assert.match((await examine(own)).text, /^WARREN_RUNSC works/)
  const foreign = join(folder, 'runsc')
  copyFileSync(own, foreign)
  appendFileSync(foreign, 'other bytes')
  chmodSync(foreign, 0o755)
  const warned = await examine(foreign)
  assert.deepEqual([warned.status, /is a foreign build/.test(warned.text)], ['warn', true])
})
