/**
 * Makes the bundle from which bin/warren starts: everything that the server, its threads and the commands
 * load, in a few files. Each bundle gets its own folder, and becomes the current one when it is complete:
 * processes that run from an older one continue. `bin/bundle` decides when a new one is due, and lets one
 * process at a time make it.
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
import { isBuiltin } from 'node:module'
import { basename, join } from 'node:path'
import { build, type Plugin } from 'esbuild'
import { systemClock } from '../../lib/clock.ts'
import { projectFolder, sourcesFolder } from '../project/project-folder.ts'

const prefix = 'made-'
const entry = 'warren.mjs'
/** Including the new one. Processes may run from older ones, and load parts of them later. */
const maxBundles = 16
/** The kernel dates a change of a file by a clock that may lag behind ours by this much. */
const clockStepMs = 20

/**
 * Returns the file that starts Warren. `folder` must be inside the project, so that packages outside the
 * bundle are found.
 */
async function makeBundle(folder: string): Promise<string> {
  const startedAt = systemClock.now() - clockStepMs
  mkdirSync(folder, { recursive: true })
  const own = mkdtempSync(join(folder, prefix))
  try {
    // Anybody may run commands that only query the server.
    chmodSync(own, 0o755)
    await writeBundle(own)
    // Files that were changed since the start may not be in the bundle.
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
    // esbuild looks for its own program beside its file.
    external: ['esbuild'],
    plugins: [builtinsAsTheyAre],
    // Packages that are not ES modules load Node's own by `require`.
    banner: {
      js: "import { createRequire as requireOf } from 'node:module'; const require = requireOf(import.meta.url);",
    },
  })
}

/**
 * Node's own modules without `import`, which reads every export once: `node:http` then loads a client for WebSockets.
 */
const builtinsAsTheyAre: Plugin = {
  name: 'builtins as they are',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /./ }, ({ path, kind }) =>
      kind !== 'entry-point' && isBuiltin(path)
        ? { path, namespace: 'builtin', sideEffects: false }
        : undefined,
    )
    onLoad({ filter: /./, namespace: 'builtin' }, ({ path }) => ({
      contents: `module.exports = process.getBuiltinModule(${JSON.stringify(path)})`,
    }))
  },
}

function removeOld(folder: string): void {
  const dated = readdirSync(folder)
    .filter((name) => name.startsWith(prefix))
    .map((name) => ({ path: join(folder, name), madeMs: statSync(join(folder, name)).mtimeMs }))
  const old = dated.sort((a, b) => b.madeMs - a.madeMs).slice(maxBundles)
  for (const { path } of old) rmSync(path, { recursive: true, force: true })
}

if (import.meta.main) process.stdout.write(`${await makeBundle(join(projectFolder, '.cache/bundle'))}\n`)
