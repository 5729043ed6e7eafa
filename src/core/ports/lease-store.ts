/**
 * Leases for work that only one of the Warrens on a database may do at a time. Times are those of the
 * database's clock.
 */
export interface LeaseStore {
  /** True if this node holds the lease for `forMs` from now on. */
  acquire(name: string, forMs: number): Promise<boolean>
  release(name: string): Promise<void>
}
