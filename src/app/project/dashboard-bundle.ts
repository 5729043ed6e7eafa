/**
 * Makes the dashboard's files from its sources: bundled, split into the first view and the rest, and
 * compressed. They are stored in a folder named after their sources, so that only the first start after a
 * change bundles.
 */
import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import { build, type Metafile, type Plugin, stop } from 'esbuild'
import type { Dashboard, DashboardFile } from '../../api/routes/dashboard/dashboard.ts'
import { randomHex } from '../../lib/ids.ts'
import { projectFolder } from './project-folder.ts'

const sources = join(projectFolder, 'src/dashboard')
/** The dashboard uses some of these files. */
const library = join(projectFolder, 'src/lib')
const packageFile = join(projectFolder, 'package.json')
const layoutVersion = 1
/** More takes seconds and saves a few percent. */
const brotliQuality = 9

type Entry = Dashboard['entry']

export async function openDashboard(folder: string): Promise<Dashboard> {
  const cached = join(folder, await keyOfSources())
  return (await readBundle(cached)) ?? (await bundle(cached))
}

async function keyOfSources(): Promise<string> {
  const hash = createHash('sha256').update(`${layoutVersion}\n`)
  const files = (await Promise.all([sources, library].map(filesIn))).flat()
  for (const file of [packageFile, ...files.sort()]) {
    hash.update(`\n${file.slice(projectFolder.length)}\n`).update(await readFile(file))
  }
  return hash.digest('hex').slice(0, 32)
}

async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name))
}

/** Undefined if these sources were not bundled yet. */
async function readBundle(folder: string): Promise<Dashboard | undefined> {
  let index: string
  try {
    index = await readFile(join(folder, 'entry.json'), 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  const files = new Map<string, DashboardFile>()
  for (const name of await readdir(folder)) {
    if (!name.endsWith('.gz')) continue
    const [gzip, br] = await Promise.all([
      readFile(join(folder, name)),
      readFile(join(folder, name.replace(/gz$/, 'br'))),
    ])
    files.set(name.slice(0, -'.gz'.length), { gzip, br })
  }
  return { entry: JSON.parse(index) as Entry, files }
}

async function bundle(folder: string): Promise<Dashboard> {
  const { outputFiles, metafile } = await build({
    entryPoints: { main: join(sources, 'main.tsx'), icon: join(sources, 'icon.svg') },
    outdir: '/',
    bundle: true,
    write: false,
    splitting: true,
    format: 'esm',
    metafile: true,
    entryNames: '[name]-[hash]',
    chunkNames: '[name]-[hash]',
    loader: { '.svg': 'copy' },
    platform: 'browser',
    target: 'es2022',
    minify: true,
    charset: 'utf8',
    legalComments: 'none',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    logLevel: 'silent',
    plugins: [withoutNode],
  })
  // Otherwise esbuild's process would live as long as ours.
  await stop()
  const files = new Map<string, DashboardFile>()
  for (const { path, contents } of outputFiles) {
    const br = brotliCompressSync(contents, { params: { [constants.BROTLI_PARAM_QUALITY]: brotliQuality } })
    files.set(basename(path), { gzip: gzipSync(contents, { level: 9 }), br })
  }
  const dashboard = { entry: entryOf(metafile), files }
  await writeBundle(folder, dashboard)
  return dashboard
}

/** The client's template builder needs a file system; the parts that the dashboard uses do not. */
const withoutNode: Plugin = {
  name: 'without-node',
  setup(build) {
    build.onResolve({ filter: /^(node:.*|dockerfile-ast)$/ }, ({ path }) => ({
      path,
      namespace: 'without-node',
      sideEffects: false,
    }))
    build.onLoad({ filter: /.*/, namespace: 'without-node' }, () => ({ contents: 'module.exports = {}' }))
  },
}

function entryOf({ outputs }: Metafile): Entry {
  const [script, output] = Object.entries(outputs).find(([, { entryPoint }]) =>
    entryPoint?.endsWith('main.tsx'),
  )!
  const icon = Object.keys(outputs).find((path) => path.endsWith('.svg'))!
  const preloads = output.imports
    .filter(({ kind }) => kind === 'import-statement')
    .map(({ path }) => basename(path))
  return { script: basename(script), style: basename(output.cssBundle!), icon: basename(icon), preloads }
}

/** Written beside and renamed, so that a bundle is complete or absent; of two concurrent writers one wins. */
async function writeBundle(folder: string, { entry, files }: Dashboard): Promise<void> {
  const beside = `${folder}.${randomHex(4)}.new`
  try {
    await mkdir(dirname(folder), { recursive: true })
    await mkdir(beside)
    for (const [name, { gzip, br }] of files) {
      await writeFile(join(beside, `${name}.gz`), gzip)
      await writeFile(join(beside, `${name}.br`), br)
    }
    await writeFile(join(beside, 'entry.json'), JSON.stringify(entry))
    await rename(beside, folder).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
    })
  } finally {
    await rm(beside, { recursive: true, force: true })
  }
}
