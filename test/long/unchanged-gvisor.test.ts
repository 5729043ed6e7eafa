/**
 * gVisor as its sources make it, without Warren's patch: the suites of the driver pass on it too, so that what they prove
 * comes from gVisor and not from the patch. And the build that all other tests use is made once more: whoever builds it
 * gets the same bytes.
 */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { it } from 'node:test'
import { installedProgram } from '../../src/app/isolation/isolation-runtime.ts'
import { downloadGo, findGo, type Go, goVersion } from '../../src/app/setup/go-toolchain.ts'
import { buildRunsc, builtSums, gvisorPatch, gvisorVersion } from '../../src/app/setup/gvisor-build.ts'
import { driverSuite } from '../../src/drivers/driver-suite.ts'
import { egressSuite } from '../../src/drivers/oci/suite/egress.ts'
import { forkBombSuite } from '../../src/drivers/oci/suite/fork-bomb.ts'
import { gateSuite } from '../../src/drivers/oci/suite/gate.ts'
import { isolationSuite } from '../../src/drivers/oci/suite/isolation.ts'
import { kernelResourcesSuite } from '../../src/drivers/oci/suite/kernel-resources.ts'
import { limitsSuite } from '../../src/drivers/oci/suite/limits.ts'
import { networkSuite } from '../../src/drivers/oci/suite/network.ts'
import { runOciSuites } from '../../src/drivers/oci/suite/runtimes.ts'
import { ociSnapshotSuite } from '../../src/drivers/oci/suite/snapshot.ts'
import { survivalSuite } from '../../src/drivers/oci/suite/survival.ts'
import { snapshotDriverSuite } from '../../src/drivers/snapshot-suite.ts'
import { testMachine } from '../support/test-machine.ts'
import { repoFolder } from '../support/warren.ts'

// The long counts are for the build that users get.
delete process.env.WARREN_TEST_LONG

const work = mkdtempSync(join(tmpdir(), 'warren-unchanged-'))
process.once('exit', () => rmSync(work, { recursive: true, force: true }))
const go: Go = (await findGo()) ?? (await downloadGo(join(work, 'go'), () => {}))

async function unchangedRunsc(): Promise<string> {
  const folder = join(repoFolder, '.cache/unchanged')
  const path = join(folder, `runsc-${gvisorVersion}-${goVersion}`)
  if (existsSync(path)) return path
  mkdirSync(folder, { recursive: true })
  const built = join(folder, `runsc.${process.pid}`)
  await buildRunsc({ go, path: built, advance: () => {} })
  renameSync(built, path)
  return path
}

const sumOf = (path: string) => createHash('sha256').update(readFileSync(path)).digest('hex')

it('the same sources, patch and Go make the same program', async () => {
  const { runtimes } = await testMachine()
  const again = join(work, 'runsc')
  await buildRunsc({ go, path: again, advance: () => {}, patch: gvisorPatch })
  assert.equal(sumOf(again), sumOf(installedProgram(runtimes.gvisor)!))
  // Warren knows its own build by this sum where an operator gives a program.
  if (builtSums[process.arch] !== undefined) assert.equal(sumOf(again), builtSums[process.arch])
})

const runtimeBinary = await unchangedRunsc()
runOciSuites(
  'gvisor',
  [
    ...[driverSuite, isolationSuite, limitsSuite, kernelResourcesSuite, forkBombSuite],
    ...[networkSuite, egressSuite, gateSuite, snapshotDriverSuite, ociSnapshotSuite, survivalSuite],
  ],
  { runtimeBinary },
)
