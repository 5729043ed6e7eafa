/** A process that takes snapshots of a sandbox and dies in the middle, and what whoever comes next makes of it. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { DriverHandle } from '../../../core/ports/driver.ts'
import { delay } from '../../../lib/clock.ts'
import { listed, newSpec } from '../../driver-fixture.ts'
import type { OciBench } from './bench.ts'
import type { SnapshotChildInput } from './snapshot-child.ts'

type Work = Pick<SnapshotChildInput, 'verb' | 'sandboxID' | 'folder'>

/** The driver of the bench must be closed: only one process may have the sandboxes. */
export async function killMakerIn(bench: OciBench, work: Work, afterMs: number): Promise<void> {
  const input: SnapshotChildInput = {
    ...work,
    options: bench.options,
    rootFolder: bench.rootFolder,
    agent: bench.agent,
  }
  const script = join(import.meta.dirname, 'snapshot-child.ts')
  const child = spawn(process.execPath, [script, JSON.stringify(input)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(child, 'exit')
  await once(child.stdout, 'data')
  await delay(afterMs)
  child.kill('SIGKILL')
  await ended
}

/** Does what the domain does at its start with a sandbox whose verb was interrupted. */
export async function makeGood(
  { driver, rootFolder, agent }: OciBench,
  sandboxID: string,
  folder: string,
): Promise<DriverHandle> {
  const found = (await listed(driver)).find((each) => each.sandboxID === sandboxID)
  const state = found && (await driver.recover(found.handle))
  if (state === 'frozen') await driver.thaw(found!.handle)
  if (state === 'frozen' || state === 'running') return found!.handle
  if (found) await driver.stop(found.handle)
  assert.ok(await driver.findSnapshot(folder), 'neither a sandbox nor a snapshot')
  const fromSnapshot = { folder, memory: true, keepSnapshot: false }
  return driver.start(newSpec({ rootFolder, agent }, { sandboxID, fromSnapshot }))
}
