/**
 * The first code of the agent: loads the bundle with the compiled code that V8 made when the kit was built,
 * so that a sandbox does not compile it again. If that code is missing or rejected by V8, the start is only
 * slower.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Script } from 'node:vm'

type Bundle = { startAgent(): void; rehearse(folder: string): Promise<void> }

const folder = dirname(process.argv[1]!)
const bundlePath = join(folder, 'agent.cjs')
const cachePath = join(folder, 'agent.cache')

function readCache(): Buffer | undefined {
  try {
    return readFileSync(cachePath)
  } catch {
    return undefined
  }
}

/** In a function, so that neither the text nor the compiled code stays in memory once V8 has them. */
function loadBundle(): { script: Script; bundle: Bundle } {
  const source = `(function (module, require) {${readFileSync(bundlePath, 'latin1')}\n})`
  const cachedData = readCache()
  const script = new Script(source, { filename: bundlePath, ...(cachedData && { cachedData }) })
  // The bundle needs only Node's own modules.
  const module = {} as { exports: Bundle }
  script.runInThisContext()(module, process.getBuiltinModule)
  return { script, bundle: module.exports }
}

if (process.argv[2] === 'rehearse') {
  const { script, bundle } = loadBundle()
  void bundle.rehearse(process.argv[3]!).then(() => writeFileSync(cachePath, script.createCachedData()))
} else loadBundle().bundle.startAgent()
