/** Everything behind RPC paths. Loaded on first use, so that the agent listens sooner. */

import type { Filesystem } from '../contract/rpc/filesystem_pb.ts'
import { filesystemMethods } from '../contract/rpc/filesystem-fields.ts'
import type { Process } from '../contract/rpc/process_pb.ts'
import { processMethods } from '../contract/rpc/process-fields.ts'
import type { Metadata } from './filesystem/metadata.ts'
import { FilesystemService } from './filesystem/service.ts'
import { Watchers } from './filesystem/watchers.ts'
import type { Identity } from './identity.ts'
import type { AgentLog } from './log/agent-log.ts'
import { withFileLog } from './log/file-log.ts'
import { type ProcessOptions, ProcessService } from './process/service.ts'
import { createRpcHandler, type RpcHandler } from './rpc/rpc.ts'

export type Services = { processes: ProcessService; watchers: Watchers; rpc: RpcHandler }

const ignore = (): void => {}

export function createServices(
  identity: Identity,
  addon: string,
  options: ProcessOptions,
  metadata: Metadata,
  log: AgentLog,
): Services {
  // Without Node's debugger behind it (node-flags.ts) this signal would end the agent, and the sandbox with
  // it. Before the first process nobody can send it.
  if (!process.listeners('SIGUSR1').includes(ignore)) process.on('SIGUSR1', ignore)
  const processes = new ProcessService(identity, addon, { ...options, log })
  const watchers = new Watchers(addon)
  const filesystem = new FilesystemService(identity, metadata, watchers)
  const rpc = createRpcHandler((add) => {
    add<typeof Process>('process.Process', processMethods, processes.methods())
    add<typeof Filesystem>('filesystem.Filesystem', filesystemMethods, withFileLog(filesystem.methods(), log))
  })
  return { processes, watchers, rpc }
}
