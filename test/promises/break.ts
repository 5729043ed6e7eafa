import type { Isolation } from '../support/warren.ts'
import type { NamedTest } from './page.ts'

/** A change of the sources that makes a promise false, and the test that must fail with it. */
export type Break = NamedTest & {
  name: string
  /** What is false with it. */
  fault: string
  edits: { file: string; from: string; to: string }[]
  /** The file to run, if the tests lie in a suite. */
  run?: string
  isolation?: Isolation
}
