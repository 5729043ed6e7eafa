/** The code interpreter's server and kernels as files for its template, bundled from our own sources. */
import { cp, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { bundleSources } from '../project/bundle-sources.ts'
import { sourcesFolder } from '../project/project-folder.ts'

const sources = join(sourcesFolder, 'interpreter')
const kernels = join(sources, 'kernels')
/** Files that are copied, not bundled. */
const copied = ['bash.sh', 'launch.sh', 'serve.sh', 'with-pipes.sh', 'python', 'r', 'java'] as const

/** Writes them into a folder that may not exist yet. */
export async function writeInterpreter(folder: string): Promise<void> {
  const entryPoints = { server: join(sources, 'main.ts'), javascript: join(kernels, 'javascript.ts') }
  const bundled = await bundleSources(entryPoints)
  await mkdir(folder, { recursive: true })
  for (const [name, text] of bundled) await writeFile(join(folder, name), text)
  for (const name of copied) {
    await cp(join(kernels, name), join(folder, name), {
      recursive: true,
      filter: (path) => !path.includes('__pycache__'),
    })
  }
}
