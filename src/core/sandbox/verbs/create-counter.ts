/**
 * Counts the creates of each template. Counts are written together and a little later, so that no create
 * waits for one or fails because of one. Counts that are not written before a crash are lost.
 */
import type { Clock } from '../../../lib/clock.ts'
import type { Log } from '../../../lib/log.ts'
import { delayAfter } from '../../../lib/retry-delays.ts'
import type { TemplateStore } from '../../template/template-store.ts'

const writeAfterMs = 250
const retries = { firstMs: 5000, longestMs: 60_000 }

export class CreateCounter {
  readonly #parts: { templates: TemplateStore; clock: Clock; log: Log }
  #counts = new Map<string, { count: number; lastAt: number }>()
  #cancel: (() => void) | undefined
  #writing: Promise<void> = Promise.resolve()
  #closed = false
  /** Number of times in a row that counts could not be written. */
  #failures = 0

  constructor(parts: { templates: TemplateStore; clock: Clock; log: Log }) {
    this.#parts = parts
  }

  count(templateID: string, at: number): void {
    this.#add(templateID, 1, at)
    this.#writeAfter(writeAfterMs)
  }

  /** Writes the counts so far, once. */
  async close(): Promise<void> {
    this.#closed = true
    this.#cancel?.()
    await this.#writing
    await this.#write()
  }

  #add(templateID: string, count: number, at: number): void {
    const before = this.#counts.get(templateID) ?? { count: 0, lastAt: 0 }
    this.#counts.set(templateID, { count: before.count + count, lastAt: Math.max(before.lastAt, at) })
  }

  #writeAfter(delayMs: number): void {
    if (this.#closed) return
    this.#cancel ??= this.#parts.clock.after(delayMs, () => {
      this.#cancel = undefined
      this.#writing = this.#writing.then(() => this.#write())
    })
  }

  async #write(): Promise<void> {
    const { templates, log } = this.#parts
    const counts = this.#counts
    this.#counts = new Map()
    let hasFailed = false
    for (const [templateID, { count, lastAt }] of counts) {
      try {
        await templates.recordCreates(templateID, count, lastAt)
      } catch (error) {
        log.warn(
          { templateID, err: error },
          'The number of creates of a template could not be written; trying again later.',
        )
        this.#add(templateID, count, lastAt)
        hasFailed = true
      }
    }
    this.#failures = hasFailed ? this.#failures + 1 : 0
    if (hasFailed) this.#writeAfter(delayAfter(this.#failures, retries))
  }
}
