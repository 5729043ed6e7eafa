/**
 * Ends connections by their address. Where that fails, connections end when they time out. One failure says nothing about the
 * next address, so each is tried; a kernel that can never do it is logged once.
 */
export function flowForgetter(
  log: (message: string, cause?: unknown) => void,
  forget: (address: string) => Promise<void>,
): (address: string) => Promise<void> {
  let hasFailed = false
  return async (address) => {
    try {
      await forget(address)
      hasFailed = false
    } catch (error) {
      if (!hasFailed)
        log(
          'Connections of an ended sandbox stay in the table of the machine, and may reach the next one at its address, ' +
            'until they time out',
          error,
        )
      hasFailed = true
    }
  }
}
