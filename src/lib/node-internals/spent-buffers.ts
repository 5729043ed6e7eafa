/**
 * Every read of a socket or a file makes a buffer. V8 counts their bytes towards a full collection, which goes
 * through the whole heap, though a minor one would free them in a millisecond. Who streams much says so here, and a
 * minor one is made in time.
 */

/** On a busy machine what one collection frees is counted until the next: twice this must fit a small heap's limit. */
const everyBytes = 4 * 1024 * 1024

type Collect = (options: { type: 'minor' }) => void

let spentBytes = 0
let collect: Collect | undefined

export function noteSpent(bytes: number): void {
  spentBytes += bytes
  if (spentBytes < everyBytes) return
  spentBytes = 0
  collect ??= findCollect()
  collect({ type: 'minor' })
}

/** Loaded here because many processes never stream that much. */
function findCollect(): Collect {
  process.getBuiltinModule('node:v8').setFlagsFromString('--expose-gc')
  return process.getBuiltinModule('node:vm').runInNewContext('gc') as Collect
}
