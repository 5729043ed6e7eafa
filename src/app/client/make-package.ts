/**
 * Makes the npm package of the command line alone, for machines that speak to a Warren elsewhere: one file, and no package to
 * install with it. Prints the folder for `npm pack` or `npm publish`.
 */
import { chmodSync, copyFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { build } from 'esbuild'
import { projectFolder, sourcesFolder } from '../project/project-folder.ts'
import { version } from '../project/version.ts'

const readme = `# The command line of Warren

    npm install --global warren-${version}.tgz
    export E2B_API_URL=https://… E2B_API_KEY=e2b_…
    warren run echo hello

\`bin/warren env\` on the server prints both variables. \`warren --help\` shows the commands.
`

async function makePackage(folder: string): Promise<void> {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  const program = join(folder, 'warren.mjs')
  await build({
    entryPoints: [join(sourcesFolder, 'app/client/main.ts')],
    outfile: program,
    bundle: true,
    platform: 'node',
    target: 'node20',
    format: 'esm',
    logLevel: 'error',
    banner: { js: '#!/usr/bin/env node' },
  })
  chmodSync(program, 0o755)
  const description = 'The command line of Warren, a self-hosted sandbox cloud that speaks the E2B protocol'
  const fields = { name: 'warren', version, description, license: 'Apache-2.0', type: 'module' }
  const shipped = { engines: { node: '>=20' }, bin: { warren: 'warren.mjs' }, files: ['warren.mjs'] }
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify({ ...fields, ...shipped }, null, 2)}\n`)
  writeFileSync(join(folder, 'README.md'), readme)
  copyFileSync(join(projectFolder, 'LICENSE'), join(folder, 'LICENSE'))
}

const folder = join(projectFolder, '.cache/client')
await makePackage(folder)
process.stdout.write(`${folder}\n`)
