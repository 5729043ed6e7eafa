/** The modules that a Go program was built of: Go writes them into the program. */
import { readFile } from 'node:fs/promises'

export type GoModule = { path: string; version: string; sum?: string }

/** Go's linker puts the list between these two marks of 16 bytes (cmd/go/internal/modload). */
const [begin, end] = ['3077af0c9274080241e1c107e6d618e6', 'f932433186182072008242104116d8f2'].map((hex) =>
  Buffer.from(hex, 'hex'),
) as [Buffer, Buffer]

export async function goModules(program: string): Promise<GoModule[]> {
  const bytes = await readFile(program)
  const from = bytes.indexOf(begin)
  const to = bytes.indexOf(end, from)
  if (from < 0 || to < 0) return []
  return bytes
    .subarray(from + begin.length, to)
    .toString()
    .split('\n')
    .flatMap((line) => {
      const [kind, path, version, sum] = line.split('\t')
      if (kind !== 'dep' || path === undefined || version === undefined) return []
      return [{ path, version, ...(sum && { sum }) }]
    })
}
