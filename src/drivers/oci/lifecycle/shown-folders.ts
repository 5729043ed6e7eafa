/**
 * Folders outside of a sandbox's root that it has mounted. They lie where only root of this machine may go, so each is
 * mounted once more in the namespace of the sandbox's slot, where the users of the sandbox may pass.
 */
import type { ShownFolder } from '../../host/namespace/mount-disks.ts'
import type { Layout } from '../../host/record/layout.ts'
import type { SandboxRecord } from '../../host/record/records.ts'
import { flavourOf } from '../runtime/flavours.ts'

export function shownFolders(layout: Layout, record: SandboxRecord): ShownFolder[] {
  const { agentFolder, gpus, sandboxID, cpuCount } = record
  const { showsOwnMachine } = flavourOf(record)
  const agent = showsOwnMachine ? agentFolder : layout.agentMount(agentFolder)
  return [
    { source: agent, target: layout.kitMount },
    { source: layout.shownProc(sandboxID), target: layout.procMount },
    ...(showsOwnMachine ? [] : [{ source: layout.sysSkeleton(cpuCount), target: layout.sysMount }]),
    ...(gpus ? [{ source: gpus.files, target: layout.gpuMount }] : []),
  ]
}
