/**
 * How the agent's Node is started. Small heaps and one compiler thread (0 would mean about one for each CPU): all of it
 * measured on an idle agent, none of it slows the start. `idle-memory.ts` relies on the size of the heap. Whoever is root
 * inside could otherwise open Node's debugger by a signal, and make the agent answer anything.
 */
export const nodeFlags: readonly string[] = [
  '--max-old-space-size=256',
  '--max-semi-space-size=1',
  '--v8-pool-size=1',
  '--disable-sigusr1',
]
