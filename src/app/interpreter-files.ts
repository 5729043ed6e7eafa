/** The code interpreter's server and kernels as files for its template, bundled from our own sources. */
import { createHash } from 'node:crypto'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runCommand } from '../lib/run-command.ts'
import { bundleSources } from './bundle-sources.ts'

const sources = join(import.meta.dirname, '../interpreter')
const kernels = join(sources, 'kernels')
/** What is not bundled, but copied as it is. */
const copied = ['bash.sh', 'launch.sh', 'serve.sh', 'python'] as const

/** Writes them into a folder that may not be there yet. */
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

/** An archive with one folder `interpreter`, named after what is in it. */
export async function packInterpreter(): Promise<{ hash: string; archive: Buffer }> {
  const work = await mkdtemp(join(tmpdir(), 'warren-interpreter-'))
  try {
    const folder = join(work, 'interpreter')
    await writeInterpreter(folder)
    const hash = createHash('sha256')
    const names = (await readdir(folder, { recursive: true, withFileTypes: true }))
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
    for (const path of names.sort())
      hash.update(`${path.slice(folder.length)}\n`).update(await readFile(path))
    const archive = join(work, 'interpreter.tar')
    await runCommand('tar', ['-C', work, '--owner=0', '--group=0', '-cf', archive, 'interpreter'])
    return { hash: hash.digest('hex'), archive: await readFile(archive) }
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}
