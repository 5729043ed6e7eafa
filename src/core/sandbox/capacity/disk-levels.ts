/** How much of the disk must be left for what. All in bytes. */
export type DiskLevels = {
  /** A file of so many real blocks is given up when the disk is nearly full: for the database, and to end sandboxes. */
  reserveBytes: number
  /** Below this nothing is begun that takes disk space: no create, resume, pause, copy, build or volume. */
  startBytes: number
  /** Sandboxes that stand still go on when so much is left again. */
  thawBytes: number
  /** Below this sandboxes that write stand still. */
  freezeBytes: number
  /** Below this a sandbox that still writes is ended, and where none does the reserve is given up. */
  endBytes: number
}

const mebibyte = 1024 * 1024
/** A small disk has a smaller reserve: so large a part of all of it. */
const largestShare = 1 / 16

export function diskLevels(totalBytes: number, reserveMB: number): DiskLevels {
  const unit = Math.floor(Math.min(reserveMB * mebibyte, totalBytes * largestShare))
  return {
    reserveBytes: unit,
    startBytes: 4 * unit,
    thawBytes: 3 * unit,
    freezeBytes: 2 * unit,
    endBytes: unit / 2,
  }
}

/** Where nobody watches the disk. */
export const noDiskLevels: DiskLevels = diskLevels(0, 0)
