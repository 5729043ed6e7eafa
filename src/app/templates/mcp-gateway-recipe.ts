/**
 * The recipe of the template `mcp-gateway`: the program that clients run in it, and some preinstalled
 * servers.
 */
import { cp, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { BuiltInRecipe } from '../../core/template/built-in-templates.ts'
import { bundleSources } from '../project/bundle-sources.ts'
import { sourcesFolder } from '../project/project-folder.ts'
import { packFiles } from './packed-files.ts'

const sources = join(sourcesFolder, 'mcp-gateway')
const folder = '/opt/mcp-gateway'
/** These need no key, and are what people try first. */
const usualServers = ['memory', 'time']
const furtherServers = ['duckduckgo', 'fetch', 'filesystem', 'git', 'sequentialthinking', 'wikipedia']

export function mcpGatewayRecipe(diskMB: number): BuiltInRecipe {
  return {
    alias: 'mcp-gateway',
    name: 'mcp-gateway',
    about: 'Servers of the Model Context Protocol behind one port.',
    seconds: 120,
    sizes: { cpuCount: 2, memoryMB: 1024, diskMB },
    async request({ full }) {
      const files = await packFiles('mcp-gateway', writeGateway)
      const servers = full ? [...usualServers, ...furtherServers] : usualServers
      const step = { filesHash: null, force: false }
      const pull = `ln -s ${folder}/mcp-gateway.sh /usr/local/bin/mcp-gateway && mcp-gateway pull ${servers.join(' ')}`
      return {
        from: { template: 'base' },
        steps: [
          { ...step, type: 'COPY', args: ['mcp-gateway', folder, 'root'], filesHash: files.hash },
          { ...step, type: 'RUN', args: [pull, 'root'] },
        ],
        startCmd: null,
        readyCmd: null,
        force: false,
        files,
      }
    },
  }
}

async function writeGateway(into: string): Promise<void> {
  const bundled = await bundleSources({ main: join(sources, 'main.ts') })
  await mkdir(into, { recursive: true })
  for (const [name, text] of bundled) await writeFile(join(into, name), text)
  await cp(join(sources, 'mcp-gateway.sh'), join(into, 'mcp-gateway.sh'))
}
