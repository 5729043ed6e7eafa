/** How much memory must be available for what. All in bytes. */
export type MemoryLevels = {
  /** Below this nothing is begun that takes memory: no create, resume or build. */
  startBytes: number
  /** Sandboxes that stand still go on when so much is available again. */
  thawBytes: number
  /** Below this sandboxes that grow beyond their share stand still. */
  freezeBytes: number
  /** Below this one is paused to the disk or ended. */
  endBytes: number
}

const mebibyte = 1024 * 1024

export function memoryLevels(minFreeMB: number): MemoryLevels {
  const unit = Math.floor((minFreeMB * mebibyte) / 4)
  return { startBytes: 4 * unit, thawBytes: 3 * unit, freezeBytes: 2 * unit, endBytes: unit }
}
