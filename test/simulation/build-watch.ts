/** Checks every change of the rows of builds: all layers of a stored build must be in the object store. */
import { buildKey, layerKey } from '../../src/core/object-storage/keys.ts'
import type { RowChange } from './database.ts'
import { shortID } from './parked-calls.ts'
import type { Simulation } from './simulation.ts'
import { Violation } from './violation.ts'

export class BuildWatch {
  /** Builds that other nodes can use by their rows. */
  readonly stored = new Set<string>()
  /** By build: the keys of the layers that the object store has by its row. */
  readonly #stored = new Map<string, string[]>()
  readonly #simulation: Simulation

  constructor(simulation: Simulation) {
    this.#simulation = simulation
  }

  see({ table, before, after }: RowChange): void {
    if (table !== 'template_builds') return
    const buildID = String((after ?? before)!.id)
    this.#seeMark(buildID, before, after)
    const wasStored = this.#stored.has(buildID)
    const layers: string[] = after?.stored_at != null && after.layers ? JSON.parse(String(after.layers)) : []
    if (layers.length === 0) return void this.#stored.delete(buildID)
    this.#stored.set(buildID, layers.map(layerKey))
    if (!wasStored) this.#checkLayers(buildID)
  }

  /** What one node does not find, another one may. */
  #seeMark(buildID: string, before: RowChange['before'], after: RowChange['after']): void {
    const { packs, report } = this.#simulation
    if (after?.stored_at != null) this.stored.add(buildID)
    else this.stored.delete(buildID)
    if (before?.stored_at == null || !after || after.stored_at !== null || after.status !== 'ready') return
    const keys = this.#stored.get(buildID) ?? []
    if (after.saved_name) keys.push(buildKey(String(after.saved_name)))
    if (keys.length === 0 || !keys.every((key) => packs.hasPack(key))) return
    const text = `build ${shortID(buildID)} is not marked any more, and the object store has all of it`
    report(new Violation('pack needed', text))
  }

  checkAtRest(): void {
    for (const buildID of this.#stored.keys()) this.#checkLayers(buildID)
  }

  /** To be called when an object is removed. */
  checkRemoval(key: string): void {
    for (const [buildID, keys] of this.#stored) {
      if (!keys.includes(key)) continue
      const text = `the layer ${key} of build ${shortID(buildID)}, which is stored, is removed`
      this.#simulation.report(new Violation('pack needed', text))
    }
  }

  #checkLayers(buildID: string): void {
    const { packs, report } = this.#simulation
    for (const key of this.#stored.get(buildID)!) {
      if (packs.hasPack(key)) continue
      const text = `the object store does not have the layer ${key} of build ${shortID(buildID)}, which is stored`
      report(new Violation('pack needed', text))
    }
  }
}
