import type { SearchOptions } from '../search.ts'

/** A fault that is put back in, and how the simulation finds it. */
export type Mutation = {
  name: string
  /** What went wrong with it. */
  fault: string
  edits?: { file: string; from: string; to: string }[]
  /**
   * The histories in which it is searched for: those of the profile that makes its conditions frequent, so that some dozen are
   * enough, whatever the course of each seed is.
   */
  search?: SearchOptions
  /** Histories to search at most; 400 by default. */
  histories?: number
  /** The violation that it leads to. */
  finds: RegExp
}
