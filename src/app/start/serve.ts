/** Joins all parts into the one process, top to bottom, and closes them in reverse order. */

import { availableParallelism } from 'node:os'
import type { ApiParts } from '../../api/context.ts'
import { LoneNode } from '../../core/cluster/lone-node.ts'
import type { AgentProgram } from '../../core/ports/agent-program.ts'
import type { AppError } from '../../lib/app-error.ts'
import { systemClock } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import { stopPretenuring } from '../../lib/node-internals/pretenuring.ts'
import { openAcme } from '../acme/open-acme.ts'
import { createNodeDirectory, joinCluster } from '../cluster/cluster.ts'
import type { Config } from '../config/config.ts'
import {
  type DataPaths,
  type FirstKey,
  loadNode,
  loadSecrets,
  type Node,
  removeServerFile,
  type Secrets,
  type ServerFile,
  saveServerFile,
} from '../data/data-folder.ts'
import { joinDomain } from '../domain/domain.ts'
import type { DomainSettings } from '../domain/domain-ports.ts'
import { repair } from '../domain/loops.ts'
import type { ChosenIsolation } from '../isolation/choose-isolation.ts'
import { ensureFirstTeam } from '../ports/first-team.ts'
import { openPorts } from '../ports/ports.ts'
import { Closers } from '../process/shutdown.ts'
import { createMachineReport } from '../reports/machine-report.ts'
import { RecentProblems } from '../reports/recent-problems.ts'
import { createSharesReport } from '../reports/shares-report.ts'
import { openTelemetry } from '../telemetry/telemetry.ts'
import { tracedDriver } from '../telemetry/trace-ports.ts'
import { acmePlan } from '../trust/acme-plan.ts'
import { startJobs } from './jobs.ts'
import { listen, type OpenedDoors } from './listen.ts'

const mebibyte = 1024 * 1024
/** More starts at once share the same CPUs and finish no sooner. */
const startsPerCPU = 2

export type ServeParts = {
  config: Config
  paths: DataPaths
  isolation: ChosenIsolation
  /** The prepared root of the base template. */
  baseRootFolder: string
  agentProgram: AgentProgram
  openDashboard: ApiParts['openDashboard']
  /** Of the locked data folder. */
  folderID: string
  /** Called when another Warren has taken the ID of this node: this process must end at once. */
  onReplaced: (problem: AppError) => void
  log: Log
}

export type RunningServer = {
  server: ServerFile
  credentials: FirstKey
  /** See `OpenedDoors`. */
  askToLeave: OpenedDoors['askToLeave']
  close(): Promise<void>
}

export async function serve(parts: ServeParts): Promise<RunningServer> {
  const { config, paths, isolation } = parts
  const problems = new RecentProblems(parts.log, systemClock)
  const log: Log = problems
  const closers = new Closers(log)
  try {
    const node = await loadNode(paths)
    const secrets = await loadSecrets(paths)
    const telemetry = await openTelemetry(log, closers)
    const driver = tracedDriver(isolation.driver, telemetry.tracer)
    const ports = await openPorts({ ...parts, node, driver, telemetry, log }, closers)
    const { diskLevels } = ports
    const domain = joinDomain(ports, { ...domainSettings(config, node, secrets), diskLevels })
    closers.add('watching the disk', () => domain.diskGuard.close())
    closers.add('watching the memory', () => domain.memoryGuard.close())
    closers.add('shares of connections', () => domain.connectionShares.close())
    closers.add('the warm pool', () => domain.warm.close())
    closers.add('the audit', () => domain.audit.flush())
    closers.add('the sandbox service', () => domain.service.close())
    closers.add('builds', () => domain.builds.close())
    const clusterParts = { ...parts, log, node, secrets, ports, domain }
    const cluster = await joinCluster(clusterParts, closers)
    const credentials = await ensureFirstTeam(domain.teams, paths)
    closers.add('watching exits', domain.reconciler.watchExits())
    const { base, endedForSpace } = ports
    await repair(domain, { base, endedForSpace, guards: [domain.diskGuard, domain.memoryGuard] })
    domain.connectionShares.start()
    startJobs(domain, ports, config, closers)
    const machine = createMachineReport({
      stores: ports.stores,
      clock: ports.clock,
      config,
      isolation: isolation.isolation,
      warm: domain.warm,
      problems,
      creates: telemetry.creates,
      uploader: domain.objectStorage?.uploader,
    })
    const dashboard = {
      ...machine,
      describeShares: createSharesReport({ nodeID: node.nodeID, shares: domain.machineShares }),
      openDashboard: parts.openDashboard,
      weakerIsolation: isolation.fallback?.notice,
    }
    const nodes = createNodeDirectory(clusterParts, cluster?.peers)
    // Other Warrens can share a PostgreSQL database, but not an SQLite file.
    const mayShare = !cluster && config.databaseUrl !== null
    const loneNode = mayShare ? new LoneNode(ports.stores.owners, node.nodeID) : undefined
    const doors = { config, secrets, ports, domain, cluster, loneNode, nodes, dashboard }
    const keepCertificate = await openAcme({ ...ports, config, log }, closers)
    const { url, askToLeave } = await listen(doors, closers)
    keepCertificate()
    const server = serverFile(url, config, ports.clock.now())
    await saveServerFile(paths, server)
    closers.add('the server file', () => removeServerFile(paths))
    stopPretenuring()
    log.info({ url, isolation: isolation.isolation }, 'serving')
    if (isolation.fallback) log.warn({}, isolation.fallback.warning)
    return { server, credentials, askToLeave, close: () => closers.closeAll() }
  } catch (error) {
    await closers.closeAll()
    throw error
  }
}

function domainSettings(config: Config, { nodeID }: Node, { seed }: Secrets): DomainSettings {
  return {
    nodeID,
    seed,
    quarantineMs: config.quarantineDays * 24 * 3_600_000,
    warmPool: { min: config.warmSandboxes, memoryMB: config.warmMemoryMB ?? undefined },
    admission: {
      memoryOvercommit: config.memoryOvercommit,
      cpuOvercommit: config.cpuOvercommit,
      minFreeMemoryMB: config.minFreeMemoryMB,
      startsAtOnce: startsPerCPU * availableParallelism(),
      waitMs: config.startWaitSeconds * 1000,
    },
    minFreeBytes: config.minFreeDiskMB * mebibyte,
    // The log files always keep at least half of a sandbox's maximum.
    maxBuildLogBytes: (config.logsPerSandboxMB * mebibyte) / 2,
    volumes: { perTeam: config.volumesPerTeam, sizeMB: config.volumeMB },
  }
}

function serverFile(url: string, config: Config, startedAt: number): ServerFile {
  const { domain, tlsCert } = config
  const hasNoWildcard = acmePlan(config)?.challenge === 'http-01'
  return { url, domain, tlsCert, ...(hasNoWildcard && { hasNoWildcard }), pid: process.pid, startedAt }
}
