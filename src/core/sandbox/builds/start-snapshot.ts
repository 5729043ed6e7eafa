/**
 * Templates that start warm: Warren starts the service of a build in a sandbox that nobody owns, and takes a
 * snapshot of its memory once it is ready. Every sandbox of the build then starts with the service running.
 */
import type { Clock } from '../../../lib/clock.ts'
import type { AgentPort, CommandOutput } from '../../ports/agent.ts'
import type { BuildSnapshot, TemplateBuild } from '../../template/template.ts'
import { agentAnswersWithinMs } from '../launch/launcher.ts'
import { runStartCommand } from '../launch/start-command.ts'
import { startSnapshotName } from '../snapshots/snapshot-names.ts'
import type { SnapshotStore } from '../snapshots/snapshot-store.ts'
import type { BuildSandboxes } from './build-sandboxes.ts'

export type StartSnapshotParts = {
  buildSandboxes: BuildSandboxes
  agent: AgentPort
  snapshots: SnapshotStore
  clock: Clock
}

/**
 * If the driver cannot snapshot memory, or might not restore the service's, the service is only tried, because each
 * sandbox will start it. Returns undefined then, and if there is nothing to start.
 */
export async function takeStartSnapshot(
  { buildSandboxes, agent, snapshots, clock }: StartSnapshotParts,
  build: TemplateBuild,
  options: { signal: AbortSignal; onOutput?: (output: CommandOutput) => void },
): Promise<BuildSnapshot | undefined> {
  if (!build.startCmd && !build.readyCmd) return undefined
  const name = startSnapshotName(build)
  return snapshots.protecting(name, async () => {
    const sandbox = await buildSandboxes.open(build, options.signal, true)
    try {
      await runStartCommand(agent, sandbox.endpoint, sandbox.accessToken, build, { ...options, clock })
      if (!build.startCmd || !snapshots.canTakeMemory) return undefined
      const asking = { withinMs: agentAnswersWithinMs, signal: options.signal }
      const networks = await agent.findOtherNetworks(sandbox.endpoint, sandbox.accessToken, asking)
      if (networks !== 'none') return undefined
      await sandbox.snapshotAndEnd(name, true, options.signal)
      return { name, memory: true, sandboxID: sandbox.sandboxID }
    } finally {
      await sandbox.close()
    }
  })
}
