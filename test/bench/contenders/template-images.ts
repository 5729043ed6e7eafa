/** The images that the benchmark of templates pulls: a large one, and the same small one in one layer and in many. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { runCommand } from '../../../src/lib/run-command.ts'
import { startDockerRegistry, type TestRegistry, writeLayout } from '../../support/registry.ts'
import { busyboxRoot } from '../../support/roots.ts'
import { cacheFolder } from '../../support/warren.ts'

export const manyLayers = 30
/** The parts of a Debian root that become layers; together some 770 MB, or 300 MB compressed. */
const parts = [
  ['usr/share'],
  ['usr/bin', 'usr/sbin', 'etc', 'var'],
  ['usr/local'],
  ['usr/include'],
  ['usr/lib'],
]
const filesPerLayer = 50

export type BenchImages = {
  registry: TestRegistry
  large: string
  many: string
  one: string
  /** On the file system of everything else. */
  folder: string
  close(): Promise<void>
}

/** Maximum number of layers of the large image. */
export async function openBenchImages(rootFolder: string, maxLayers: number): Promise<BenchImages> {
  await mkdir(join(cacheFolder, 'bench'), { recursive: true })
  const folder = await mkdtemp(join(cacheFolder, 'bench', 'images-'))
  const registry = await startDockerRegistry()
  const close = async () => {
    await registry.stop()
    await rm(folder, { recursive: true, force: true })
  }
  try {
    const layout = join(folder, 'layout')
    const large = await largeRoots(rootFolder, folder, maxLayers)
    const { many, one } = await smallRoots(folder)
    await writeLayout(layout, [
      { tag: 'large', roots: large },
      { tag: 'many', roots: many },
      { tag: 'one', roots: [one] },
    ])
    for (const tag of ['large', 'many', 'one']) {
      await registry.push(layout, tag, `bench/${tag}:1`, '--dest-compress-format', 'gzip')
    }
    await rm(layout, { recursive: true })
    const at = (tag: string) => `${registry.host}/bench/${tag}:1`
    return { registry, folder, close, large: at('large'), many: at('many'), one: at('one') }
  } catch (error) {
    await close()
    throw error
  }
}

async function largeRoots(rootFolder: string, folder: string, maxLayers: number): Promise<string[]> {
  const roots: string[] = []
  for (const names of parts.slice(0, maxLayers)) {
    const root = join(folder, `large-${roots.length}`)
    for (const name of names) {
      await mkdir(dirname(join(root, name)), { recursive: true })
      // Hard links: nothing is copied.
      await runCommand('cp', ['-al', join(rootFolder, name), join(root, name)])
    }
    roots.push(root)
  }
  return roots
}

async function smallRoots(folder: string): Promise<{ many: string[]; one: string }> {
  const [bottom, one] = [await busyboxRoot(), join(folder, 'one')]
  await runCommand('cp', ['-a', bottom, one])
  const many = [bottom]
  for (let layer = 1; layer < manyLayers; layer++) {
    const root = join(folder, `many-${layer}`)
    for (const into of [root, one]) {
      const inside = join(into, 'srv', `part-${layer}`)
      await mkdir(inside, { recursive: true })
      for (let file = 0; file < filesPerLayer; file++) {
        await writeFile(join(inside, `file-${file}`), `${layer} ${file}\n`.repeat(100))
      }
    }
    many.push(root)
  }
  return { many, one }
}
