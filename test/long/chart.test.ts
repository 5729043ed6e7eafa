/**
 * The rendered chart and the schemas of Kubernetes in test/chart are what Helm and Kubernetes make, and Helm rejects values that
 * cannot work. Building Helm takes two minutes of CPU time, and the module of Kubernetes is a download of many megabytes: too
 * much for each run in CI.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { promisify } from 'node:util'
import {
  buildHelm,
  chartFolder,
  makeSchemas,
  render,
  renderedFolder,
  schemaFile,
  valueNames,
} from '../chart/chart-files.ts'

let helm: string
before(async () => {
  helm = await buildHelm()
})

test('Helm renders the chart as test/chart/rendered has it', async () => {
  for (const name of valueNames) {
    assert.equal(await render(helm, name), readFileSync(join(renderedFolder, `${name}.yaml`), 'utf8'), name)
  }
})

test('Helm finds no fault in the chart', async () => {
  const { stdout } = await promisify(execFile)(helm, ['lint', '--strict', chartFolder])
  assert.match(stdout, /0 chart\(s\) failed/)
})

test('the kept schemas are those of Kubernetes', async () => {
  assert.deepEqual(await makeSchemas(), JSON.parse(readFileSync(schemaFile, 'utf8')))
})

test('Helm rejects values that cannot work, and says why', async () => {
  const rejected: [values: string, message: RegExp][] = [
    ['settings.WARREN_PORT=4000', /WARREN_PORT/],
    ['settings.WARREN_MISSPELT=1', /WARREN_MISSPELT/],
    ['env[0].name=WARREN_HOST', /\/env\/0\/name/],
    ['settings.WARREN_LOG_LEVEL=info,env[0].name=WARREN_LOG_LEVEL', /is in settings and in env/],
    ['peerPort=3000', /port and peerPort are both 3000/],
    ['drainOnStop.enabled=true', /set objectStore\.bucket/],
    ['networkPolicy.enabled=true', /networkPolicy\.machines is empty/],
    ['networkPolicy.machines[0]=10.0.0.1', /machines/],
    ['port=70000', /port/],
  ]
  for (const [values, message] of rejected) {
    await assert.rejects(render(helm, 'defaults', ['--set', values]), (error: { stderr: string }) => {
      assert.match(error.stderr, message)
      return true
    })
  }
})
