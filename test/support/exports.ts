/** Finds what a file exports although no other file imports it. */
import { posix } from 'node:path'

const staticImport =
  /(?:import|export)\s+(?:type\s+)?(\{[^}]*\}|\*(?:\s+as\s+\w+)?)\s*from\s*['"]([^'"\n]+)['"]/g
const lazyImport = /import\(\s*['"]([^'"\n]+)['"]\s*\)/g
const exported = /^export (?:abstract |async )?(?:type|interface|class|const|let|function\*?) (\w+)/gm

/** The agent is loaded as a bundle, by the names of its functions. */
const loadedByName = ['src/agent/main.ts']

/** `sources`: every program by its path, tests too, because a test may import what it proves. */
export function unusedExports(sources: ReadonlyMap<string, string>): string[] {
  const used = new Set<string>()
  for (const [path, source] of sources) {
    // A program inside a text names its imports by `${folder}/file.ts`.
    const fileOf = (name: string) => posix.join(posix.dirname(path), name.replace(/^\$\{[^}]*\}/, '.'))
    for (const [, names = '', from = ''] of source.matchAll(staticImport)) {
      const file = fileOf(from)
      if (names.startsWith('*')) used.add(file)
      for (const [, name] of names.matchAll(/(?:^\{|,)\s*(?:type\s+)?(\w+)/g)) used.add(`${file} ${name}`)
    }
    for (const [, from = ''] of source.matchAll(lazyImport)) used.add(fileOf(from))
  }
  return [...sources].flatMap(([path, source]) => {
    if (!path.startsWith('src/') || path.endsWith('_pb.ts')) return []
    if (used.has(path) || loadedByName.includes(path)) return []
    const names = [...source.matchAll(exported)].map(([, name]) => name!)
    return [...new Set(names)]
      .filter((name) => !used.has(`${path} ${name}`))
      .map((name) => `${path} exports ${name}, which no other file imports`)
  })
}
