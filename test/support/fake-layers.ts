import type { RemoteLayers } from '../../src/core/ports/images.ts'

/** Layers as names: which of them the object store has, and which were fetched. */
export class FakeLayers implements RemoteLayers {
  readonly stored = new Set<string>()
  readonly fetched: string[] = []
  /** A knob: shared names of layers that this machine has named after their recipe. */
  readonly shared = new Map<string, string>()

  async sharedNames(layers: readonly string[]): Promise<string[]> {
    return layers.map((layer) => this.shared.get(layer) ?? layer)
  }

  async store(layers: readonly string[]): Promise<void> {
    for (const layer of layers) this.stored.add(layer)
  }

  async fetch(layers: readonly string[]): Promise<void> {
    this.fetched.push(...layers)
  }
}
