/** Installs MCP servers, each in its own folder, and tells how to start an installed one. */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { AppError } from '../lib/app-error.ts'
import { runCommand } from '../lib/run-command.ts'
import type { ServerRecipe } from './catalogue.ts'

const serversFolder = '/opt/mcp-gateway/servers'
const installWithinMs = 10 * 60_000

type StartLine = { command: string; args: string[]; cwd: string }

const folderOf = (name: string) => join(serversFolder, name.replaceAll('/', '--'))

/** Leaves an installed server as it is: the template's build or an earlier call installed it. */
export async function install(recipe: ServerRecipe): Promise<void> {
  const { name, source } = recipe
  const folder = folderOf(name)
  if (existsSync(folder)) return
  const fresh = `${folder}.new`
  rmSync(fresh, { recursive: true, force: true })
  mkdirSync(serversFolder, { recursive: true })
  try {
    await installInto(fresh, source)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new AppError('unavailable', `The MCP server '${name}' could not be installed: ${why}`, {
      cause: error,
    })
  }
  renameSync(fresh, folder)
}

async function installInto(folder: string, source: ServerRecipe['source']): Promise<void> {
  const run = (command: string, ...args: string[]) =>
    runCommand(command, args, { timeoutMs: installWithinMs })
  if (source === null) return void mkdirSync(folder)
  if ('npm' in source) {
    await run('npm', 'install', '--no-audit', '--no-fund', '--no-save', '--prefix', folder, source.npm)
  } else if ('pypi' in source) {
    await run('python3', '-m', 'venv', folder)
    await run(
      join(folder, 'bin/python'),
      '-m',
      'pip',
      'install',
      '-q',
      '--disable-pip-version-check',
      source.pypi,
    )
  } else {
    await run('git', 'clone', '--depth', '1', source.repository, folder)
    if (source.installCmd) await run('bash', '-l', '-c', `cd ${quoted(folder)} && ${source.installCmd}`)
  }
}

export function startLine({ name, source, runCmd, args }: ServerRecipe): StartLine {
  const cwd = folderOf(name)
  if (runCmd !== undefined) return { command: 'bash', args: ['-l', '-c', runCmd], cwd }
  if (source && 'npm' in source) return { command: 'node', args: [npmProgram(cwd, source.npm), ...args], cwd }
  // A folder with a Python environment must not be moved, but its modules can be found from anywhere.
  const module = (source as { pypi: string }).pypi
  return { command: join(cwd, 'bin/python'), args: ['-c', runScript, module, ...args], cwd }
}

/** Runs the program that the package names, whatever the path of its folder was when it was made. */
const runScript = `import sys
from importlib.metadata import distribution
name = sys.argv.pop(1)
sys.argv[0] = name
scripts = [one for one in distribution(name).entry_points if one.group == 'console_scripts']
next((one for one in scripts if one.name == name), scripts[0]).load()()`

function npmProgram(folder: string, name: string): string {
  const own = join(folder, 'node_modules', name)
  const { bin } = JSON.parse(readFileSync(join(own, 'package.json'), 'utf8')) as {
    bin: string | Record<string, string>
  }
  return join(own, typeof bin === 'string' ? bin : Object.values(bin)[0]!)
}

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`
