import { readFile } from 'node:fs/promises'
import { availableParallelism, totalmem } from 'node:os'
import type { MachineCapacity } from '../core/sandbox/capacity/admission.ts'

const mebibyte = 1024 * 1024

export function readMachine(): MachineCapacity {
  return {
    cpuCount: availableParallelism(),
    memoryMB: Math.floor(totalmem() / mebibyte),
    async availableMemoryMB() {
      const [, kilobytes] = /^MemAvailable:\s+(\d+) kB$/m.exec(await readFile('/proc/meminfo', 'utf8')) ?? []
      return kilobytes === undefined ? Number.POSITIVE_INFINITY : Math.floor(Number(kilobytes) / 1024)
    },
  }
}
