/**
 * Makes one file of the simulator that a Node 24 runs without this checkout and without packages: for a machine with more cores.
 * `bin/node test/simulation/bundle-simulator.ts FILE.mjs`
 */
import { join } from 'node:path'
import { build } from 'esbuild'

const [file] = process.argv.slice(2)
if (!file?.endsWith('.mjs')) {
  console.error('Name the file to write: bin/node test/simulation/bundle-simulator.ts simulate.mjs')
  process.exit(2)
}
await build({
  entryPoints: [join(import.meta.dirname, 'simulate.ts')],
  outfile: file,
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node24',
  logLevel: 'error',
})
console.log(`Wrote ${file}. Run it with: node ${file} --workers 16 --histories 100000 --nodes 3`)
