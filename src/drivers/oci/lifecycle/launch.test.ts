import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openRules } from '../../../core/ports/egress.ts'
import { AppError, isAppError } from '../../../lib/app-error.ts'
import { parseSubnet } from '../../host/network/addresses.ts'
import { CpuShares } from '../../host/process/cpu-shares.ts'
import type { OciContext } from '../context/context.ts'
import { flavourFor } from '../runtime/flavours.ts'
import { startSandbox } from './launch.ts'

const spec = {
  sandboxID: 'one',
  runID: 'run',
  rootFolder: '/root',
  agent: { folder: '/agent', command: ['/init'], env: {} },
  egress: openRules,
  cpuCount: 1,
  memoryMB: 256,
  diskMB: 128,
}

/** The parts of a driver that a start uses before it writes its record. */
function contextWith(removeSlot: () => Promise<void>) {
  const cpuShares = new CpuShares([0, 1])
  const removed: number[] = []
  const context = {
    cpuShares,
    agentFolders: ['/agent'],
    subnet: parseSubnet('10.213.0.0/24'),
    runtime: { flavour: flavourFor('container'), binary: '/runc' },
    records: { create: () => Promise.reject(new AppError('no_space', 'The disk is full.')) },
    slots: {
      acquire: async () => ({ number: 7, diskMB: 128 }),
      remove: (slot: number) => {
        removed.push(slot)
        return removeSlot()
      },
      startIsOver: () => {},
    },
  } as unknown as OciContext
  return { context, cpuShares, removed }
}

describe('a start whose record cannot be written', () => {
  it('gives back its slot and its CPUs', async () => {
    const { context, cpuShares, removed } = contextWith(async () => {})
    await assert.rejects(startSandbox(context, spec), (error) => isAppError(error, 'no_space'))
    assert.deepEqual(removed, [7])
    assert.deepEqual([cpuShares.reserve('a', 1), cpuShares.reserve('b', 1)], ['0', '1'])
  })

  it('reports the first error even if the clean-up fails too', async () => {
    const { context } = contextWith(() => Promise.reject(new Error('The slot is in use.')))
    await assert.rejects(startSandbox(context, spec), (error) => {
      assert.ok(isAppError(error, 'no_space'))
      assert.match(error.message, /The disk is full\. .* could not be removed yet\.$/)
      const causes = (error.cause as AggregateError).errors.map(String)
      assert.equal(causes.length, 2)
      assert.match(causes[1]!, /The slot is in use\.$/)
      return true
    })
  })
})
