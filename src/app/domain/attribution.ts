/** Joins what tells the guards which team uses what on this machine. */
import type { BuildSandboxes } from '../../core/sandbox/builds/build-sandboxes.ts'
import { SandboxTeams } from '../../core/sandbox/capacity/sandbox-teams.ts'
import { TeamDisk } from '../../core/sandbox/capacity/team-disk.ts'
import type { WarmPool } from '../../core/sandbox/warm-pool/warm-pool.ts'
import type { DomainPorts } from './domain-ports.ts'

export function joinAttribution(
  { stores, snapshotFolders, clock }: DomainPorts,
  warm: WarmPool,
  buildSandboxes: BuildSandboxes,
) {
  const sandboxTeams = new SandboxTeams({
    findTeams: (sandboxIDs) => stores.sandboxes.teamsOf(sandboxIDs),
    isPooled: (sandboxID) => warm.owns(sandboxID),
    builtTemplate: (sandboxID) => buildSandboxes.templateOf(sandboxID),
    findTemplateTeam: async (templateID) =>
      (await stores.templates.findByID(templateID))?.teamID ?? undefined,
    clock,
  })
  const teamDisk = new TeamDisk({
    listVolumes: () => stores.volumes.listAll(),
    listPaused: () => stores.sandboxes.listUnended(['paused']),
    snapshotBytes: (name) => snapshotFolders.bytesOf([name]),
    clock,
  })
  return { sandboxTeams, teamDisk }
}
