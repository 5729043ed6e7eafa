/** This node's report for the others: its facts, and its load. */
import { readFileSync } from 'node:fs'
import { readFile, statfs } from 'node:fs/promises'
import { arch } from 'node:os'
import type { NodeFacts, NodeLoad } from '../../core/cluster/node.ts'
import type { Domain } from '../domain/domain.ts'
import type { OpenedPorts } from '../ports/ports.ts'
import { version } from '../project/version.ts'

export function readFacts(isolation: NodeFacts['isolation'], { machine }: OpenedPorts): NodeFacts {
  const text = readFileSync('/proc/cpuinfo', 'utf8')
  const field = (name: string) => new RegExp(`^${name}\\s*:\\s*(.*)$`, 'm').exec(text)?.[1] ?? ''
  const { cpuCount, memoryMB } = machine
  return {
    version,
    isolation,
    cpuCount,
    memoryMB,
    keepsArriving: true,
    cpu: {
      architecture: arch() === 'x64' ? 'x86_64' : arch(),
      family: field('cpu family'),
      model: field('model'),
      modelName: field('model name'),
      features: (field('flags') || field('Features')).split(' ').filter(Boolean).sort(),
    },
  }
}

/** Creates the function that reads the load; it remembers the last reading of the CPU times. */
export function createLoadReader(
  { machine, stores, driver }: OpenedPorts,
  { admission, warm, service, objectStorage }: Domain,
  dataFolder: string,
): () => Promise<NodeLoad> {
  let before = { busy: 0, total: 0 }
  const cpuPercent = async () => {
    const now = await readCpuTimes()
    const [busy, total] = [now.busy - before.busy, now.total - before.total]
    before = now
    return total > 0 ? Math.round((100 * busy) / total) : 0
  }
  return async () => {
    const active = await stores.sandboxes.sumActive()
    const capacity = admission.capacity(active)
    const available = await machine.availableMemoryMB()
    const { successes, fails } = service.createCounts
    return {
      ...capacity,
      availableMemoryMB: Number.isFinite(available) ? available : machine.memoryMB,
      allocatedCPU: active.cpuCount,
      allocatedMemoryMB: active.memoryMB,
      sandboxes: active.sandboxes,
      createSuccesses: successes,
      createFails: fails,
      cpuPercent: await cpuPercent(),
      disk: await readDisk(dataFolder),
      ...(driver.gpus && { gpus: { free: driver.gpus.free, mostPerSandbox: driver.gpus.mostPerSandbox } }),
      warmTemplates: warm.templates(),
      buildsAtHand: (await objectStorage?.buildsAtHand.list()) ?? [],
    }
  }
}

/** In ticks, since the boot of the machine. */
async function readCpuTimes(): Promise<{ busy: number; total: number }> {
  const [, ...fields] = (await readFile('/proc/stat', 'utf8')).split('\n', 1)[0]!.split(/\s+/)
  const times = fields.map(Number)
  const total = times.slice(0, 8).reduce((sum, time) => sum + time, 0)
  const [idle = 0, waiting = 0] = times.slice(3, 5)
  return { busy: total - idle - waiting, total }
}

async function readDisk(folder: string): Promise<NodeLoad['disk']> {
  const { blocks, bfree, bsize } = await statfs(folder)
  const mounts = (await readFile('/proc/mounts', 'utf8')).trim().split('\n')
  const containing = mounts
    .map((line) => line.split(' ') as [device: string, mountPoint: string, type: string])
    .filter(([, mountPoint]) => mountPoint === '/' || `${folder}/`.startsWith(`${mountPoint}/`))
    .sort(([, a], [, b]) => a.length - b.length)
  const [device, mountPoint, filesystemType] = containing.at(-1) ?? ['', '/', '']
  return {
    mountPoint,
    device,
    filesystemType,
    usedBytes: (blocks - bfree) * bsize,
    totalBytes: blocks * bsize,
  }
}
