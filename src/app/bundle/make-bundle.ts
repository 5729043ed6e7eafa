/**
 * Makes the bundle that bin/warren starts from: all that the server, its threads and the commands load, in a few files.
 * It gets a folder of its own, and only then becomes the current one: processes go on that run from an older one.
 * `bin/bundle` says when one is due, and lets one process at a time make it.
 */
import {
  chmodSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { build } from 'esbuild'
import { systemClock } from '../../lib/clock.ts'
import { projectFolder, sourcesFolder } from '../project-folder.ts'

const prefix = 'made-'
const entry = 'warren.mjs'
/** With the new one. Processes may run from those before, and load parts of them later. */
const keptBundles = 16
/** The kernel dates a change of a file by a clock that may be so much behind ours. */
const clockStepMs = 20

/** Gives the file to start Warren by. `folder` lies in the project, so that packages outside the bundle are found. */
export async function makeBundle(folder: string): Promise<string> {
  const startedAt = systemClock.now() - clockStepMs
  mkdirSync(folder, { recursive: true })
  const own = mkdtempSync(join(folder, prefix))
  try {
    // Commands that only ask the server may be run by anybody.
    chmodSync(own, 0o755)
    await writeBundle(own)
    // What was changed since then may not be in it.
    utimesSync(join(own, entry), startedAt / 1000, startedAt / 1000)
    symlinkSync(basename(own), join(folder, `${basename(own)}.link`))
    renameSync(join(folder, `${basename(own)}.link`), join(folder, 'current'))
  } catch (error) {
    rmSync(own, { recursive: true, force: true })
    throw error
  }
  removeOld(folder)
  return join(own, entry)
}

async function writeBundle(outdir: string): Promise<void> {
  const workers = globSync('**/*-worker.ts', { cwd: sourcesFolder })
  const entryPoints = {
    warren: join(sourcesFolder, 'app/bundle/launch.ts'),
    ...Object.fromEntries(workers.map((path) => [basename(path, '.ts'), join(sourcesFolder, path)])),
  }
  await build({
    entryPoints,
    outdir,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    splitting: true,
    platform: 'node',
    target: 'node24',
    format: 'esm',
    logLevel: 'silent',
    inject: [join(sourcesFolder, 'app/bundle/source-stacks.ts')],
    sourcemap: 'linked',
    sourcesContent: false,
    // It looks for its own program beside its file.
    external: ['esbuild'],
    // Packages that are not ES modules ask for Node's own by `require`.
    banner: {
      js: "import { createRequire as requireOf } from 'node:module'; const require = requireOf(import.meta.url);",
    },
  })
}

function removeOld(folder: string): void {
  const dated = readdirSync(folder)
    .filter((name) => name.startsWith(prefix))
    .map((name) => ({ path: join(folder, name), madeMs: statSync(join(folder, name)).mtimeMs }))
  const old = dated.sort((a, b) => b.madeMs - a.madeMs).slice(keptBundles)
  for (const { path } of old) rmSync(path, { recursive: true, force: true })
}

if (import.meta.main) process.stdout.write(`${await makeBundle(join(projectFolder, '.cache/bundle'))}\n`)
