/** Undefined for what is not there. Any other failure says nothing about that, and is passed on. */
export async function ifThere<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
