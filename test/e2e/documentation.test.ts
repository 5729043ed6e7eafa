/** What the documentation tells people to run works, as does the command line, and the server's figures tell of it. */
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import {
  copyFileSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it, test } from 'node:test'
import { Sandbox } from 'e2b'
import { transformSync } from 'esbuild'
import { pythonWith } from '../support/python.ts'
import { pythonReleases } from '../support/releases.ts'
import { anyIsolation, joinWarren, repoFolder, type Warren } from '../support/warren.ts'

type Block = { page: string; language: string; mark: string; code: string }
type Ended = { code: number | null; stdout: string; stderr: string }

/** The first line of a block says whether it is run: three backticks, then `sh run`, `sh start`, or `sh skip:` and why not. */
function allBlocks(): Block[] {
  return ['README.md', ...globSync('docs/*.md', { cwd: repoFolder })].flatMap((page) => {
    const text = readFileSync(join(repoFolder, page), 'utf8')
    // A block of a step in a list is indented as the step is.
    const found = text.matchAll(/^( *)```(\w*) ?(.*)\n([\s\S]*?)^\1```$/gm)
    return [...found].map(([, indent, language, mark, code]) => ({
      page,
      language: language!,
      mark: mark!,
      code: code!.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
    }))
  })
}

test('every block of code in the documentation is run, or has a reason why not', () => {
  const shown = new Set(['text', 'json', 'yaml'])
  const unmarked = allBlocks()
    .filter(({ language, mark }) => !shown.has(language) && !/^(run|start)$|^skip: \w.{5}/.test(mark))
    .map(({ page, code }) => `${page}: ${code.split('\n')[0]}`)
  assert.deepEqual(unmarked, [])
})

const parsers: Record<string, (code: string) => unknown> = {
  sh: (input) => execFileSync('bash', ['-n'], { input }),
  js: (code) => transformSync(code, { loader: 'ts', format: 'esm' }),
  ts: (code) => transformSync(code, { loader: 'ts', format: 'esm' }),
  python: (input) =>
    execFileSync('python3', ['-c', 'import ast, sys; ast.parse(sys.stdin.read())'], { input }),
}

test('blocks that are not run have the syntax of their language', () => {
  for (const { page, language, mark, code } of allBlocks()) {
    if (mark.startsWith('skip')) assert.doesNotThrow(() => parsers[language]!(code), page)
  }
})

/** An answer that tells of a failure fails the command, too. */
const failingCurl = 'curl() { command curl --silent --show-error --fail-with-body "$@"; }\n'

/** A start reads and checks its settings as always, shows them, and ends there. */
const settingsOnly = `
bin/warren() { if [ "$1" = start ]; then command bin/warren config; else command bin/warren "$@"; fi; }
npm() { [ "$*" = start ] && bin/warren start; }
`

describe('with a server', () => {
  let warren: Warren
  let folder: string
  /** The sandbox that pages call SANDBOX_ID. */
  let sandbox: Sandbox
  before(async () => {
    warren = await joinWarren(anyIsolation)
    sandbox = await Sandbox.create(warren.client)
    folder = mkdtempSync(join(repoFolder, '.cache/documentation-'))
    // As in a clone, and apart from it: pages make files where they are.
    symlinkSync(join(repoFolder, 'bin'), join(folder, 'bin'))
    mkdirSync(join(folder, 'data'))
    for (const name of ['credentials.json', 'server.json']) {
      copyFileSync(join(warren.dataFolder, name), join(folder, 'data', name))
    }
  })
  after(async () => {
    rmSync(folder, { recursive: true })
    await warren.stop()
  })

  type RunOptions = { input?: string; dataFolder?: string }
  const run = (program: string, args: string[], options: RunOptions = {}): Promise<Ended> =>
    new Promise((resolve, reject) => {
      const { input = '', dataFolder = warren.dataFolder } = options
      const env = {
        ...process.env,
        ...warren.environment,
        WARREN_DATA_DIR: dataFolder,
        WARREN_PORT: new URL(warren.url).port,
        SANDBOX_ID: sandbox.sandboxId,
        PATH: `${join(repoFolder, 'node_modules/.bin')}:${process.env.PATH}`,
      }
      const child = spawn(program, args, { cwd: folder, env })
      const ended: Ended = { code: null, stdout: '', stderr: '' }
      child.stdout.on('data', (chunk) => {
        ended.stdout += chunk
      })
      child.stderr.on('data', (chunk) => {
        ended.stderr += chunk
      })
      child.once('error', reject)
      child.once('close', (code) => resolve({ ...ended, code }))
      // A program that has ended already reads nothing.
      child.stdin.on('error', () => {})
      child.stdin.end(input)
    })
  const command = async (...args: string[]) => {
    const ended = await run('bin/warren', args)
    assert.equal(ended.code, 0, `${args.join(' ')}: ${ended.stdout}\n${ended.stderr}`)
    return ended.stdout
  }

  const shell = (code: string, options?: RunOptions) => run('bash', ['-euo', 'pipefail', '-c', code], options)
  const programs: Record<string, (code: string) => Promise<Ended>> = {
    sh: (code) => shell(failingCurl + code),
    start: (code) => shell(settingsOnly + code, { dataFolder: join(folder, 'data') }),
    js: (code) => {
      const file = join(folder, `${randomUUID()}.mjs`)
      writeFileSync(file, code)
      return run(process.execPath, [file])
    },
    python: (code) => run(pythonWith(`e2b==${pythonReleases(anyIsolation, 'same')[0]![0]}`), ['-c', code]),
  }

  it('blocks of the documentation for a server run, and print what their comments promise', async () => {
    const blocks = allBlocks().filter(({ mark }) => mark === 'run' || mark === 'start')
    assert.deepEqual([...new Set(blocks.map(({ language }) => language))].sort(), ['js', 'python', 'sh'])
    // Those of a page one after another, since they build on each other; three pages beside each other.
    const waiting = Map.groupBy(blocks, ({ page }) => page).values()
    const runSome = async () => {
      for (const ofPage of waiting) for (const block of ofPage) await runBlock(block)
    }
    await Promise.all([runSome(), runSome(), runSome()])
  })

  async function runBlock({ page, language, mark, code }: Block): Promise<void> {
    const { code: exitCode, stdout, stderr } = await programs[mark === 'start' ? mark : language]!(code)
    assert.equal(exitCode, 0, `${page}:\n${code}\nprinted:\n${stdout}\n${stderr}`)
    const promised = [...code.matchAll(/print(?:ln)?\(.*\) *# *(.+)$|console\.log\(.*\) *\/\/ *(.+)$/gm)]
    for (const [, ofPython, ofJs] of promised) {
      assert.ok(
        stdout.includes((ofPython ?? ofJs)!),
        `${page}: ${ofPython ?? ofJs}\nprinted:\n${stdout}\n${stderr}`,
      )
    }
  }

  it('the command line shows, enters, pauses, resumes, forks and kills a sandbox', async () => {
    const { sandboxId } = await Sandbox.create({ ...warren.client, metadata: { who: 'cli' } })
    assert.match(
      await command('sandbox', 'list', '--metadata', 'who=cli'),
      new RegExp(`^${sandboxId}.*running`, 'm'),
    )
    const input = 'echo a$((40+2))b; exit 3\n'
    const entered = await run('bin/warren', ['sandbox', 'exec', sandboxId, 'bash'], { input })
    assert.equal(entered.stdout, 'a42b\n')
    assert.equal(entered.code, 3, entered.stderr)
    const closed = await run('bin/warren', ['sandbox', 'shell', sandboxId], { input })
    assert.deepEqual([closed.code, closed.stdout], [2, ''])
    assert.match(closed.stderr, /terminal/)
    assert.match(await command('sandbox', 'logs', sandboxId), /sandbox|process/i)
    await command('sandbox', 'pause', sandboxId)
    assert.equal(JSON.parse(await command('sandbox', 'info', sandboxId, '--json')).state, 'paused')
    await command('sandbox', 'resume', sandboxId, '--timeout', '120')
    const forked = (await command('sandbox', 'fork', sandboxId)).trim()
    assert.match(forked, /^i\w+$/)
    assert.match(await command('sandbox', 'kill', sandboxId, forked), /is killed\.\n.*is killed\./)
    const gone = await run('bin/warren', ['sandbox', 'info', sandboxId])
    assert.equal(gone.code, 1)
    assert.match(gone.stderr, /doesn't exist/)
    assert.equal((await run('bin/warren', ['sandbox', 'nix'])).code, 2)
  })

  it('every command answers --help, and shells complete the existing commands', async () => {
    const names = [...(await command('help')).matchAll(/^ {2}(\w+) /gm)].map(([, name]) => name!)
    assert.ok(names.length > 15)
    const others = names.filter((name) => name !== 'version')
    for (const name of others) assert.match(await command(name, '--help'), /warren/i, name)
    const completed = await run('bash', [
      '-c',
      'eval "$(bin/warren completion bash)"; COMP_WORDS=(warren sandbox ""); COMP_CWORD=2; _warren; declare -p COMPREPLY',
    ])
    assert.match(completed.stdout, /"list".*"info".*"logs".*"shell"/)
  })

  it('the metrics of the server count the work that was done, by its parts', async () => {
    const headers = { authorization: `Bearer ${warren.adminToken}` }
    const text = await (await fetch(`${warren.url}/metrics`, { headers })).text()
    const countOf = (operation: string) => {
      const labels = `operation="${operation}",outcome="ok"`
      return Number(
        new RegExp(`^warren_operation_seconds_count\\{${labels}\\} (\\d+)$`, 'm').exec(text)?.[1] ?? 0,
      )
    }
    const operations = ['sandbox.create', 'sandbox.pause', 'sandbox.fork', 'driver.start', 'agent.initialize']
    for (const operation of [...operations, 'store.sandboxes.insertWithinLimits', 'driver.takeSnapshot']) {
      assert.ok(countOf(operation) >= 1, operation)
    }
    assert.match(text, /^warren_edge_request_seconds_count\{target="agent",code="2xx"\} [1-9]/m)
    assert.match(
      text,
      /^warren_api_request_seconds_count\{method="POST",route="[^"]*sandboxes",code="201"\} [1-9]/m,
    )
    assert.ok(!text.includes(warren.team), 'a team has become a label')
  })

  it('the documentation is served with its search and the reference of the API', async () => {
    for (const path of [
      '/docs',
      '/docs/install',
      '/docs/api',
      '/docs/search.json',
      '/docs/architecture.svg',
    ]) {
      const answer = await fetch(warren.url + path)
      assert.equal(answer.status, 200, path)
      assert.match(answer.headers.get('content-security-policy') ?? '', /default-src 'none'/)
    }
  })
})
