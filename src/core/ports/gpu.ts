/** The sum over all GPUs of a sandbox. If sandboxes share a GPU, each of them gets the figures of the whole GPU. */
export type GpuUse = {
  /** Share of the time in which a GPU was busy, in percent. */
  busyPct: number
  memoryUsedBytes: number
  memoryTotalBytes: number
}

/** The GPUs that sandboxes can have on this machine. */
export type GpuCapacity = {
  model: string
  /** A shared GPU counts once for each sandbox that may share it. */
  total: number
  free: number
  /** Maximum number of GPUs of one sandbox. */
  mostPerSandbox: number
}
