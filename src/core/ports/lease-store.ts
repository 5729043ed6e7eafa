/** What only one of the Warrens on a database does at a time. Its time is that of the database. */
export interface LeaseStore {
  /** True: this node holds the lease for so long from now on. */
  take(name: string, forMs: number): Promise<boolean>
  release(name: string): Promise<void>
}
