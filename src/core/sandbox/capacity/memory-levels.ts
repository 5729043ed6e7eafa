/** The levels of available memory at which Warren acts, in bytes. */
export type MemoryLevels = {
  /**
   * Below this level, nothing starts that takes memory: no create, resume or build. Only teams below their fair share still
   * start until `endBytes` is left.
   */
  startBytes: number
  /** Above this level, frozen sandboxes continue. */
  thawBytes: number
  /** Below this level, sandboxes that grow are frozen, of teams above their share. */
  freezeBytes: number
  /** Below this level, a sandbox of the team furthest above its share is paused to the disk or ended. */
  endBytes: number
}

const mebibyte = 1024 * 1024

export function memoryLevels(minFreeMB: number): MemoryLevels {
  const unit = Math.floor((minFreeMB * mebibyte) / 4)
  return { startBytes: 4 * unit, thawBytes: 3 * unit, freezeBytes: 2 * unit, endBytes: unit }
}
