/** How templates are built in a history: one step in one sandbox, and layers that several builds share. */
import type { BuilderTools } from '../../src/app/domain/domain-ports.ts'
import { layerKey } from '../../src/core/object-storage/keys.ts'
import type { RemoteLayers } from '../../src/core/ports/images.ts'
import type { PackStore } from '../../src/core/ports/object-store.ts'
import type { Builder, BuildResult } from '../../src/core/template/builder.ts'
import type { StartRequest } from '../../src/core/template/start-request.ts'
import { AppError } from '../../src/lib/app-error.ts'

/** Few, so that builds share them. */
const layerNames = ['sha256:one', 'sha256:two']
/** As of a machine whose layers no other can use. */
const unstorable = 'sha256:unstorable'

/** A build that uses one of the layers. */
export function buildOnLayer(pick: number, hasUnstorableLayer: boolean): StartRequest {
  const names = hasUnstorableLayer ? [...layerNames, unstorable] : layerNames
  const args = [names[Math.floor(pick * names.length)]!]
  return {
    from: { template: 'base' },
    steps: [{ type: 'RUN', filesHash: null, force: false, args }],
    startCmd: null,
    readyCmd: null,
    force: false,
  }
}

/** As the real one, it ends its sandbox whatever became of the step. */
export const newSimulatedBuilder = ({ buildSandboxes }: BuilderTools, onDisk: Set<string>): Builder => ({
  async run({ build, steps }, _log, signal, onResult) {
    const sandbox = await buildSandboxes.open(build, signal)
    const [command] = steps[0]!.args
    try {
      await sandbox.run({ command: command! } as Parameters<typeof sandbox.run>[0], { signal })
    } finally {
      await sandbox.close()
    }
    onDisk.add(command!)
    const result: BuildResult = {
      rootFolder: null,
      layers: [command!],
      snapshot: null,
      envVars: {},
      defaultUser: 'user',
      defaultWorkdir: '/home/user',
      startCmd: null,
      readyCmd: null,
      serviceContext: null,
    }
    await onResult(result)
  },
})

/** Layers are put into the object store once, as `PackedLayers` does, and stay on the disk of each machine that has fetched them. */
export const newSimulatedLayers = (packs: PackStore, onDisk: Set<string>): RemoteLayers => ({
  sharedNames: async (layers) => [...layers],
  async store(layers, signal) {
    for (const layer of layers) {
      if (layer === unstorable) throw new AppError('unprocessable', 'Only this machine can use this layer.')
      if (!(await packs.has(layerKey(layer), signal))) await packs.store(layerKey(layer), [], {}, signal)
    }
  },
  async fetch(layers, signal) {
    for (const layer of layers) {
      if (onDisk.has(layer)) continue
      const found = await packs.fetch(layerKey(layer), () => ({ open: () => undefined }), signal)
      if (!found) throw new AppError('not_found', `The object store does not have the layer ${layer}.`)
      onDisk.add(layer)
    }
  },
})
