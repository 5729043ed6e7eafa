/** How much of the machine each sandbox uses. */

/** Space that the disk of a sandbox uses on the machine's disk. */
export type DiskUse = {
  sandboxID: string
  allocatedBytes: number
  /** Written by the sandbox's processes, but not yet allocated on the machine's disk. */
  unwrittenBytes: number
}

/** Memory of the machine that a sandbox uses. */
export type MemoryUse = {
  sandboxID: string
  /** Does not count memory that the kernel can drop at any time. */
  usedBytes: number
  /** Maximum memory of the sandbox, including the memory of its runtime. */
  promisedBytes: number
}

/** Cheap enough for several calls a second. */
export interface CanMeasureUse {
  /** Disk use of all sandboxes that can be read. */
  diskUse(): Promise<DiskUse[]>
  /** Memory use of all sandboxes that can be read. */
  memoryUse(): Promise<MemoryUse[]>
}
