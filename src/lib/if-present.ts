/**
 * Undefined only if the file system reports that the file does not exist (ENOENT). Any other failure leaves that open, so it
 * is passed on.
 */
export async function ifPresent<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
}

/** Like `ifPresent`, for synchronous I/O. */
export function ifPresentNow<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
}

export function isMissing(error: unknown): boolean {
  return (error as NodeJS.ErrnoException | undefined)?.code === 'ENOENT'
}
