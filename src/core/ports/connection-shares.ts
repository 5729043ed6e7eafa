/** How a driver shares the machine's table of connections among sandboxes. */

/** Returns the owners that are known, by sandbox. */
export type OwnersOf = (sandboxIDs: readonly string[]) => Promise<ReadonlyMap<string, string>>

/** Connections in the machine's table that sandboxes opened, and how many may be open. */
export type ConnectionUse = {
  /** Maximum number of a sandbox, and of all sandboxes of an owner together. */
  perSandbox: number
  perOwner: number
  sandboxes: { sandboxID: string; count: number }[]
}

export interface CanShareConnections {
  /**
   * From now on the sandboxes of an owner may open only so many connections together, and one without a known owner few. Cheap
   * enough for a call every second.
   */
  shareConnections(ownersOf: OwnersOf): Promise<void>
  /** Not cheap. Undefined: this machine cannot count them. */
  connectionUse(): Promise<ConnectionUse | undefined>
}
