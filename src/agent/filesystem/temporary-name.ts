/** Names of files that are still being written, hidden from watchers until they have their final name. */

/** `new` becomes a new file, `over` replaces one, `moving` comes from another file system. */
export type TemporaryKind = 'new' | 'over' | 'moving'

const pattern = /^\.warren-(new|over|moving)-\d+$/
let count = 0

export function temporaryName(kind: TemporaryKind): string {
  return `.warren-${kind}-${count++}`
}

export function temporaryKind(name: string): TemporaryKind | undefined {
  return pattern.exec(name)?.[1] as TemporaryKind | undefined
}
