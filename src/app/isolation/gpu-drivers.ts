/** Which versions of the GPU driver sandboxes can use, and by which program. */
import type { IsolationRuntime } from './isolation-runtime.ts'
import { candidatesOf, isolations } from './isolations.ts'

/**
 * Asks the strongest of the wanted isolations that has a program. Undefined: sandboxes use the machine's driver itself, so
 * any version.
 */
export async function gpuDriversOf(
  wanted: string,
  programOf: (runtime: IsolationRuntime, isolation: string) => string | undefined,
): Promise<{ program: string; drivers: readonly string[] } | undefined> {
  for (const name of candidatesOf(wanted, isolations)) {
    const runtime = await isolations[name].loadRuntime()
    const program = programOf(runtime, name)
    if (program === undefined) continue
    const drivers = await runtime.gpuDrivers?.(program)
    return drivers && { program, drivers }
  }
  return undefined
}
