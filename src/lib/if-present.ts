/**
 * Undefined only when the file system says that there is nothing (ENOENT). Any other failure says nothing about
 * what is there, so it is passed on.
 */
export async function ifPresent<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
}

/** The same of what is read at once. */
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
