import type { SearchOptions } from '../search.ts'

/** A fault that is put back in, and how the simulation finds it. */
export type Mutation = {
  name: string
  /** What went wrong with it. */
  fault: string
  edits?: { file: string; from: string; to: string }[]
  search?: SearchOptions
  /** The violation that it leads to. */
  finds: RegExp
  /** A history that leads to it, tried before any other. Code that changes the course of the seeds makes it another. */
  seed: number
}
