import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import {
  cpSync,
  globSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, suite, test } from 'node:test'
import { promisify } from 'node:util'
import { projectFolder, sourcesFolder } from '../project/project-folder.ts'

/** A module that prints, when the process ends, stacks of errors that seem to come from a line of the bundle. */
function stackPrinter(bundle: string): string {
  const source = `
    import { readFileSync } from 'node:fs'
    import { runInThisContext } from 'node:vm'
    const filename = ${JSON.stringify(`file://${bundle}`)}
    const lineOffset = readFileSync(${JSON.stringify(bundle)}, 'utf8').split('\\n').findIndex((line) => line.includes('await import'))
    const stackOf = (code) => Object.assign(runInThisContext('new Error("ended")', { filename, lineOffset }), { code }).stack
    process.on('exit', () => {
      const stacks = { plain: stackOf(undefined), ABORT_ERR: stackOf('ABORT_ERR'), ECONNRESET: stackOf('ECONNRESET') }
      process.stdout.write('\\n' + JSON.stringify(stacks))
    })`
  return `data:text/javascript,${encodeURIComponent(source)}`
}

suite('the bundle', () => {
  const project = mkdtempSync(join(tmpdir(), 'warren-bundle-'))
  for (const name of ['bin', 'src', 'package.json', 'package-lock.json']) {
    cpSync(join(projectFolder, name), join(project, name), { recursive: true })
  }
  symlinkSync(join(projectFolder, 'node_modules'), join(project, 'node_modules'))
  after(() => rmSync(project, { recursive: true }))

  const run = (file: string, words: string[] = [], env: Record<string, string> = {}) =>
    spawnSync(file, words, { cwd: project, encoding: 'utf8', env: { PATH: process.env.PATH, ...env } })
  const programToStart = () => {
    const { stdout, stderr, status } = run(join(project, 'bin/bundle'))
    assert.equal(status, 0, stderr)
    return { file: stdout.trim(), words: stderr }
  }

  test('is built once for each state of the sources, and again after a change, even one with an old date', () => {
    const first = programToStart()
    assert.match(first.file, /\/\.cache\/bundle\/made-\w+\/warren\.mjs$/)
    assert.deepEqual(programToStart(), first)
    utimesSync(join(project, 'src/app/main.ts'), 1, 1)
    const second = programToStart()
    assert.notEqual(second.file, first.file)
    assert.equal(run('bin/node', [first.file, 'version']).status, 0, 'what runs from the first one goes on')
  })

  test('is built by one of several processes that start at once, and all use it', async () => {
    const before = programToStart().file
    utimesSync(join(project, 'src/app/main.ts'), 2, 2)
    const starts = Array.from({ length: 6 }, () => promisify(execFile)(join(project, 'bin/bundle')))
    const files = (await Promise.all(starts)).map(({ stdout }) => stdout.trim())
    assert.equal(new Set(files).size, 1, files.join('\n'))
    assert.notEqual(files[0], before)
    assert.equal(run('bin/node', [files[0]!, 'version']).status, 0)
  })

  test('shows the position in the sources for an error', () => {
    const words = ['template', 'build', '/nowhere']
    const env = { WARREN_LOG_LEVEL: 'debug' }
    const bundled = run('bin/node', [programToStart().file, ...words], env)
    const fromSources = run('bin/node', ['src/app/main.ts', ...words], env)
    assert.match(
      bundled.stderr,
      /^AppError: There is no Dockerfile.*\n +at \w+ \(file:.*\/src\/cli\/template\.ts:\d+/,
    )
    const ownLines = (stack: string) => stack.split('\n').filter((line) => line.includes('/src/cli/'))
    assert.deepEqual(ownLines(bundled.stderr), ownLines(fromSources.stderr))
  })

  test('reads no source map for the error of a closed connection', () => {
    const { file } = programToStart()
    const { stdout, stderr } = run('bin/node', ['--import', stackPrinter(file), file, 'version'])
    const stacks = JSON.parse(stdout.trim().split('\n').at(-1)!) as Record<string, string>
    assert.match(stacks.plain!, /\/src\/\S+\.ts:\d+/, stderr)
    assert.match(stacks.ABORT_ERR!, /\/warren\.mjs:\d+/)
    assert.match(stacks.ECONNRESET!, /\/warren\.mjs:\d+/)
  })

  test('contains every thread that a source starts', () => {
    const sources = globSync('**/*.ts', { cwd: sourcesFolder }).map((path) =>
      readFileSync(join(sourcesFolder, path), 'utf8'),
    )
    const threads = sources.flatMap((source) =>
      [...source.matchAll(/\bsiblingModule\('([\w-]+)'/g)].map(([, name]) => name!),
    )
    assert.ok(threads.length >= 3, String(threads))
    const folder = dirname(programToStart().file)
    for (const name of threads) readFileSync(join(folder, `${name}.mjs`))
  })

  test('is optional: if it cannot be built, Warren starts from its sources and logs the reason', () => {
    rmSync(join(project, '.cache'), { recursive: true })
    writeFileSync(join(project, '.cache'), 'a file where the folder should be')
    const { file, words } = programToStart()
    assert.equal(file, join(project, 'src/app/main.ts'))
    assert.match(words, /could not make its bundle .* and starts from its sources/)
    assert.match(run('bin/warren', ['version']).stdout, /^\d+\.\d+\.\d+\n$/)
  })
})
