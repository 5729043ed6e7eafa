/**
 * Like Promise.all, but rejects only when every piece of work has come to its end, so that none goes on behind the
 * back of whoever cleans up after the failure. The first failure in the list is the one that is told.
 */
export async function allDone(work: readonly (Promise<unknown> | undefined)[]): Promise<void> {
  for (const result of await Promise.allSettled(work)) {
    if (result.status === 'rejected') throw result.reason
  }
}
