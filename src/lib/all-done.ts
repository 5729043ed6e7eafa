/**
 * Like Promise.all, but rejects only when all work has ended, so that no work goes on while the caller cleans up after a
 * failure. Rejects with the first failure in the list.
 */
export async function allDone(work: readonly (Promise<unknown> | undefined)[]): Promise<void> {
  for (const result of await Promise.allSettled(work)) {
    if (result.status === 'rejected') throw result.reason
  }
}
