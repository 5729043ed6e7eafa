import { readFile } from 'node:fs/promises'
import { availableParallelism, totalmem } from 'node:os'
import { canMeasureUse, type Driver } from '../../core/ports/driver.ts'
import type { MachineCapacity } from '../../core/sandbox/capacity/admission.ts'

const mebibyte = 1024 * 1024

/** `limitMB`: what all sandboxes together may use. Null: what the machine has. */
export function readMachine(limitMB: number | null, driver: Driver): MachineCapacity {
  const totalMB = Math.floor(totalmem() / mebibyte)
  return {
    cpuCount: availableParallelism(),
    memoryMB: Math.min(totalMB, limitMB ?? totalMB),
    async availableMemoryMB() {
      const [, kilobytes] = /^MemAvailable:\s+(\d+) kB$/m.exec(await readFile('/proc/meminfo', 'utf8')) ?? []
      const availableMB = kilobytes === undefined ? Number.POSITIVE_INFINITY : Number(kilobytes) / 1024
      if (limitMB === null || !canMeasureUse(driver)) return Math.floor(availableMB)
      const usedBytes = (await driver.memoryUse()).reduce((total, use) => total + use.usedBytes, 0)
      return Math.floor(Math.min(availableMB, limitMB - usedBytes / mebibyte))
    },
  }
}
