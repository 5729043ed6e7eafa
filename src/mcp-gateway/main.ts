/**
 * The program `mcp-gateway` of the template of that name. Clients run it once with `--config`: it installs
 * and starts the requested servers, leaves the gateway running, and ends. `pull` installs servers ahead, in a
 * template.
 */
import { spawn } from 'node:child_process'
import { mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { errorText } from '../lib/app-error.ts'
import { recipeFor, type ServerRecipe } from './catalogue.ts'
import { Gateway } from './gateway.ts'
import { install } from './install.ts'

const port = 50_005
const folder = '/etc/mcp-gateway'
const tokenFile = `${folder}/.token`
const logFile = '/var/log/mcp-gateway.log'
const usage = 'Usage: mcp-gateway --config \'{"memory":{}}\' | mcp-gateway pull NAME…'

async function main([verb, ...rest]: string[]): Promise<void> {
  if (verb === '--config' && rest.length === 1) return await start(recipesIn(rest[0]!))
  if (verb === 'pull' && rest.length > 0) return await pull(rest.map((name) => recipeFor(name, {})))
  if (verb === 'serve' && rest.length === 1) return await serve(recipesIn(rest[0]!))
  throw new Error(usage)
}

function recipesIn(config: string): ServerRecipe[] {
  const given = JSON.parse(config) as Record<string, unknown>
  return Object.entries(given).map(([name, settings]) => recipeFor(name, settings))
}

async function pull(recipes: readonly ServerRecipe[]): Promise<void> {
  for (const recipe of recipes) await install(recipe)
}

/** Resolves once the gateway, which runs in a separate process, has all its tools. */
async function start(recipes: readonly ServerRecipe[]): Promise<void> {
  const token = ownVariables.GATEWAY_ACCESS_TOKEN
  if (!token) throw new Error('GATEWAY_ACCESS_TOKEN is not set.')
  await pull(recipes)
  mkdirSync(folder, { recursive: true, mode: 0o755 })
  writeFileSync(tokenFile, token, { mode: 0o600 })
  const log = openSync(logFile, 'a', 0o600)
  const args = [process.argv[1]!, 'serve', process.argv[3]!]
  const child = spawn(process.execPath, args, { detached: true, stdio: ['ignore', log, log, 'ipc'] })
  await new Promise<void>((resolve, reject) => {
    child.once('message', (message) => (message === 'ready' ? resolve() : reject(new Error(String(message)))))
    child.once('exit', () => reject(new Error(`The gateway ended; ${logFile} says why.`)))
  })
  child.disconnect()
  child.unref()
}

async function serve(recipes: readonly ServerRecipe[]): Promise<void> {
  const gateway = new Gateway()
  try {
    for (const recipe of recipes) await gateway.add(recipe, ownVariables as Record<string, string>)
    const server = gateway.serve(readFileSync(tokenFile, 'utf8'))
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject).listen(port, '0.0.0.0', resolve)
    })
  } catch (error) {
    await new Promise((resolve) => process.send!(errorText(error), resolve))
    throw error
  }
  process.send!('ready')
}

/** Variables of the sandbox's owner: all servers get them. */
const ownVariables = process.env

main(process.argv.slice(2)).catch((error) => {
  process.stderr.write(`${errorText(error)}\n`)
  process.exit(1)
})
