/**
 * The flags of the agent's Node. Small heaps and one compiler thread (0 would mean about one for each CPU):
 * all measured on an idle agent, and none slows the start. `idle-memory.ts` relies on the size of the heap.
 * The last flag keeps Node's debugger shut, which root inside could otherwise open by a signal, to make the agent
 * answer anything. A listener for that signal (`services.ts`) keeps it shut too, from the first process on.
 */
export const nodeFlags: readonly string[] = [
  '--max-old-space-size=256',
  '--max-semi-space-size=1',
  '--v8-pool-size=1',
  '--disable-sigusr1',
]
