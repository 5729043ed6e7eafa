/** The code interpreter's server and kernels as files for its template, bundled from our own sources. */
import { createHash } from 'node:crypto'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { build, stop } from 'esbuild'
import { runCommand } from '../lib/run-command.ts'

const sources = join(import.meta.dirname, '../interpreter')
const kernels = join(sources, 'kernels')
/** What is not bundled, but copied as it is. */
const copied = ['bash.sh', 'launch.sh', 'serve.sh', 'python'] as const

/** Writes them into a folder that may not be there yet. */
export async function writeInterpreter(folder: string): Promise<void> {
  const result = await build({
    entryPoints: { server: join(sources, 'main.ts'), javascript: join(kernels, 'javascript.ts') },
    outdir: '/',
    outExtension: { '.js': '.cjs' },
    bundle: true,
    platform: 'node',
    target: 'node24',
    format: 'cjs',
    charset: 'ascii',
    minify: true,
    legalComments: 'none',
    write: false,
    logLevel: 'silent',
  })
  // esbuild's own process would otherwise stay for as long as ours.
  await stop()
  await mkdir(folder, { recursive: true })
  for (const file of result.outputFiles) await writeFile(join(folder, basename(file.path)), file.text)
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
