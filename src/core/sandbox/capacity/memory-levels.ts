/** The levels of available memory at which Warren acts, in bytes. */
export type MemoryLevels = {
  /** Below this level, nothing starts that takes memory: no create, resume or build. */
  startBytes: number
  /** Above this level, frozen sandboxes continue. */
  thawBytes: number
  /** Below this level, sandboxes that grow beyond their share are frozen. */
  freezeBytes: number
  /** Below this level, a sandbox beyond its share is paused to the disk or ended. */
  endBytes: number
}

const mebibyte = 1024 * 1024

export function memoryLevels(minFreeMB: number): MemoryLevels {
  const unit = Math.floor((minFreeMB * mebibyte) / 4)
  return { startBytes: 4 * unit, thawBytes: 3 * unit, freezeBytes: 2 * unit, endBytes: unit }
}
