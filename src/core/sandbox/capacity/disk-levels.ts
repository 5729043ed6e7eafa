/** The levels of free disk space at which Warren acts, in bytes. */
export type DiskLevels = {
  /**
   * Size of a file of real blocks that is deleted when the disk is nearly full: for the database, and to end
   * sandboxes.
   */
  reserveBytes: number
  /**
   * Below this level, nothing starts that takes disk space: no create, resume, pause, copy, build or volume.
   */
  startBytes: number
  /** The same for teams below their fair share of the disk. */
  fairStartBytes: number
  /** Above this level, frozen sandboxes continue. */
  thawBytes: number
  /** Below this level, sandboxes that write are frozen, of teams above their fair share. */
  freezeBytes: number
  /** Below this level, a sandbox that still writes is ended; if none writes, the reserve is given up. */
  endBytes: number
}

const mebibyte = 1024 * 1024
/** The reserve is at most this share of the disk, for small disks. */
const largestShare = 1 / 16

export function diskLevels(totalBytes: number, reserveMB: number): DiskLevels {
  const unit = Math.floor(Math.min(reserveMB * mebibyte, totalBytes * largestShare))
  return {
    reserveBytes: unit,
    startBytes: 4 * unit,
    fairStartBytes: unit,
    thawBytes: 3 * unit,
    freezeBytes: 2 * unit,
    endBytes: unit / 2,
  }
}

/** Levels for a server that does not watch the disk. */
export const noDiskLevels: DiskLevels = diskLevels(0, 0)
