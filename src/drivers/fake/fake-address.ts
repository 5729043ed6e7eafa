import type { FakeWorld } from './fake-world.ts'

/** The lowest free number. A sandbox that is gone leaves its address to the next one, as on a real machine. */
export function freeAddress({ sandboxes }: FakeWorld): string {
  const used = new Set([...sandboxes.values()].map(({ handle }) => handle.data.address))
  for (let number = 1; ; number++) if (!used.has(`fake-${number}`)) return `fake-${number}`
}
