/** Everything behind RPC paths. Loaded when it is first needed, so that the agent listens sooner. */
import './fast-base64.ts'
import { Filesystem } from '../contract/rpc/filesystem_pb.ts'
import { Process } from '../contract/rpc/process_pb.ts'
import { FilesystemService } from './filesystem/service.ts'
import type { SyscallProcess } from './filesystem/syscall-process.ts'
import type { Identity } from './identity.ts'
import type { Tools } from './process/credentials.ts'
import { type ProcessOptions, ProcessService } from './process/service.ts'
import { createRpcHandler, type RpcHandler } from './rpc.ts'

export type Services = { processes: ProcessService; rpc: RpcHandler }

export function createServices(
  identity: Identity,
  tools: Tools,
  options: ProcessOptions,
  syscalls: SyscallProcess,
): Services {
  const processes = new ProcessService(identity, tools, options)
  const filesystem = new FilesystemService(identity, syscalls)
  const rpc = createRpcHandler((add) => {
    add(Process, processes.routes())
    add(Filesystem, filesystem.routes())
  })
  return { processes, rpc }
}
