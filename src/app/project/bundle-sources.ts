import { createHash } from 'node:crypto'
import { readFile, rename, writeFile } from 'node:fs/promises'
import { basename, extname, join } from 'node:path'
import { type BuildOptions, build, stop } from 'esbuild'
import { randomHex } from '../../lib/ids.ts'
import { ifPresent } from '../../lib/if-present.ts'

type MoreOptions = Pick<BuildOptions, 'define' | 'external'>

/**
 * Bundles our sources as programs for the Node inside sandboxes: each entry point by its name, with
 * everything that it imports.
 */
export async function bundleSources(
  entryPoints: Record<string, string>,
  more: MoreOptions = {},
): Promise<Map<string, string>> {
  const file = cacheFileOf(entryPoints, more)
  const cached = file && (await ifPresent(readFile(file, 'utf8')))
  if (cached) return new Map(JSON.parse(cached))
  const made = await makePrograms(entryPoints, more)
  if (file) await writeCache(file, JSON.stringify([...made]))
  return made
}

/** Warren's own bundle has a folder for each state of the sources, where these programs can be stored. */
function cacheFileOf(entryPoints: Record<string, string>, more: MoreOptions): string | undefined {
  if (extname(import.meta.filename) !== '.mjs') return undefined
  const asked = createHash('sha256').update(JSON.stringify([entryPoints, more]))
  return join(import.meta.dirname, `programs-${asked.digest('hex').slice(0, 16)}.json`)
}

/** If it cannot be written, the next start makes the programs again. */
async function writeCache(file: string, text: string): Promise<void> {
  const partial = `${file}.${randomHex(4)}`
  await writeFile(partial, text)
    .then(() => rename(partial, file))
    .catch(() => {})
}

async function makePrograms(
  entryPoints: Record<string, string>,
  more: MoreOptions,
): Promise<Map<string, string>> {
  const result = await build({
    entryPoints,
    outdir: '/',
    outExtension: { '.js': '.cjs' },
    bundle: true,
    write: false,
    platform: 'node',
    target: 'node24',
    format: 'cjs',
    charset: 'ascii',
    minify: true,
    legalComments: 'none',
    logLevel: 'silent',
    ...more,
  })
  // Otherwise esbuild's process would live as long as ours.
  await stop()
  return new Map(result.outputFiles.map((file) => [basename(file.path), file.text]))
}
