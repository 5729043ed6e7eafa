/** Samples the resource use of each running sandbox at a fixed interval. */
import type { Clock } from '../../../lib/clock.ts'
import type { Log } from '../../../lib/log.ts'
import type { Driver } from '../../ports/driver.ts'
import { type Sandbox, wireStates } from '../row/sandbox.ts'
import type { SandboxReader } from '../row/sandbox-store.ts'
import type { MetricStore } from './metric-store.ts'
import { SentBytes } from './sent-bytes.ts'

export const sampleEveryMs = 5000

type Reading = { runID: string; at: number; cpuTimeMs: number }

/** Called with what a sandbox sent since the sample before. */
type OnSent = (sandbox: Sandbox, sentBytes: number) => void

type MetricsSamplerParts = {
  driver: Driver
  sandboxes: SandboxReader
  metrics: MetricStore
  onSent?: OnSent
  clock: Clock
  log: Log
}

export class MetricsSampler {
  readonly #parts: MetricsSamplerParts
  readonly #sent: SentBytes
  /** The reading before, of each running sandbox: CPU use is a difference. */
  #before = new Map<string, Reading>()

  constructor(parts: MetricsSamplerParts) {
    this.#parts = parts
    this.#sent = new SentBytes(parts.clock.now())
  }

  /** Takes one sample of every running sandbox and writes all in one transaction. */
  async sample(): Promise<void> {
    const { driver, sandboxes, metrics, onSent, clock, log } = this.#parts
    const running = await sandboxes.listUnended(wireStates.running)
    const readings = new Map<string, Reading>()
    const samples = await Promise.all(
      running.map(async (sandbox) => {
        const { sandboxID, runID, handle, startedAt, cpuCount } = sandbox
        if (!handle) return undefined
        try {
          const { cpuTimeMs, sentBytes, ...use } = await driver.stats(handle)
          const at = clock.now()
          const known = this.#before.get(sandboxID)
          // The sandbox may have booted in the warm pool before its row existed. Its boot would look like too
          // much CPU in too little time.
          const firstAt = Math.min(startedAt, at - sampleEveryMs)
          const before = known?.runID === runID ? known : { at: firstAt, cpuTimeMs: 0 }
          readings.set(sandboxID, { runID, at, cpuTimeMs })
          if (sentBytes !== undefined) onSent?.(sandbox, this.#sent.since(sandbox, sentBytes))
          const available = Math.max(1, at - before.at) * cpuCount
          const cpuUsedPct = Math.min(100, Math.max(0, (100 * (cpuTimeMs - before.cpuTimeMs)) / available))
          return { sandboxID, at, cpuCount, cpuUsedPct: Math.round(cpuUsedPct * 100) / 100, ...use }
        } catch (error) {
          // The sandbox may have ended between the list and the reading.
          log.debug({ sandboxID, err: error }, 'a sandbox could not be measured')
          return undefined
        }
      }),
    )
    this.#before = readings
    await metrics.append(samples.filter((sample) => sample !== undefined))
  }
}
