/**
 * Templates that start warm: the service of a build is started in a sandbox that nobody owns, and its memory is
 * kept once it is ready, so that every sandbox of the build begins with it running.
 */
import { newSandboxID, newUUID } from '../../lib/ids.ts'
import type { CommandOutput } from '../agent.ts'
import type { SavedBuild, TemplateBuild } from '../template/template.ts'
import type { SandboxLauncher } from './launcher.ts'
import type { SavedStates } from './saved-states.ts'
import type { Underway } from './underway.ts'

export type PreparingParts = { launcher: SandboxLauncher; saved: SavedStates; underway: Underway }

export class Preparing {
  readonly #parts: PreparingParts

  constructor(parts: PreparingParts) {
    this.#parts = parts
  }

  /**
   * The saved state lies under the build's id. Undefined where the driver keeps no memory or there is nothing to
   * start: the start command then runs in each sandbox.
   */
  async prepare(
    build: TemplateBuild,
    options: { signal: AbortSignal; onOutput?: (output: CommandOutput) => void },
  ): Promise<SavedBuild | undefined> {
    const { launcher, saved, underway } = this.#parts
    if (!build.startCmd || !launcher.keepsMemory) return undefined
    const sandboxID = newSandboxID()
    const name = `${build.buildID}-ready`
    const row = { sandboxID, runID: newUUID(), templateID: build.templateID, envVars: {}, options: open }
    return saved.holding(name, () =>
      underway.run(sandboxID, async () => {
        const handle = await launcher.launch(row, build, {}, options.signal, async () => {}, options.onOutput)
        try {
          const how = { memory: true, afterwards: 'end', lasting: true } as const
          await saved.save(handle, name, how, options.signal)
        } catch (error) {
          await launcher.stop(handle)
          throw error
        }
        return { name, memory: true, sandboxID }
      }),
    )
  }
}

const open = { allowInternetAccess: null }
