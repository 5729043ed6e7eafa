/**
 * The driver port: one way to make a sandbox real. A driver sees a root filesystem, sizes, a network and an
 * agent to start; it never sees a team, a key, a timeout, an HTTP status or a row. Commands do not pass
 * through it: they go from the edge to the agent.
 */

/** What the caller stores to find the sandbox again after a restart. Only the driver reads `data`. */
export type DriverHandle = {
  driver: string
  version: number
  data: Record<string, string | number | boolean>
}

export type SandboxSpec = {
  sandboxID: string
  /** Fences one life of the sandbox from the next. */
  runID: string
  /** Folder of a root filesystem that `prepare` has seen; shared by sandboxes and never written. */
  rootFolder: string
  cpuCount: number
  memoryMB: number
  /** How much the sandbox may write, in MiB. */
  diskMB: number
  /** False: nothing leaves the sandbox, not even a DNS query. */
  internet: boolean
}

export type Endpoint = { host: string; port: number }

export type SandboxStats = {
  /** CPU time used since the start, in milliseconds over all CPUs. */
  cpuTimeMs: number
  memoryUsedBytes: number
  memoryCacheBytes: number
  memoryTotalBytes: number
  diskUsedBytes: number
  diskTotalBytes: number
}

/** Whether the driver can work here; where it cannot, why, and what to do about it. */
export type ProbeResult = { usable: true; detail: string } | { usable: false; reason: string; remedy: string }

export type FoundSandbox = { sandboxID: string; runID: string; handle: DriverHandle }

export type DriverCapabilities = {
  /** Can stop all processes in place and let them go on. */
  freeze: boolean
  /** Can write memory to disk and start again from it. */
  checkpoint: boolean
  /** Can enforce an egress policy finer than on or off. */
  limitEgress: boolean
}

export interface Driver {
  readonly name: string
  readonly capabilities: DriverCapabilities
  probe(): Promise<ProbeResult>
  /** Makes this process the one that starts sandboxes here; what an earlier one prepared and left is cleared. */
  open(): Promise<void>
  /** Makes a folder fit to be the root of sandboxes. Once per folder; a second call changes nothing. */
  prepare(rootFolder: string): Promise<void>
  /** Resolves once the agent process runs (it may not listen yet). Rejects with nothing left behind. */
  start(spec: SandboxSpec, signal?: AbortSignal): Promise<DriverHandle>
  recover(handle: DriverHandle): Promise<'running' | 'paused' | 'gone'>
  /** Ends every process and removes every trace. Already gone is success. */
  stop(handle: DriverHandle): Promise<void>
  endpoint(handle: DriverHandle, port: number): Endpoint
  stats(handle: DriverHandle): Promise<SandboxStats>
  /** Everything of this driver that is really there, half-made things included. */
  list(): Promise<FoundSandbox[]>
  /** Releases what the driver holds in this process. Sandboxes live on. */
  close(): Promise<void>
}
