/** Tests that the shipped files are built from the sources in `native/`, and runs these under the sanitizers. */
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { after, suite, test } from 'node:test'
import { compilers, ownCompiler, testShipped } from '../../test/support/compilers.ts'

const native = resolve(import.meta.dirname, '../../native')
const folder = mkdtempSync(join(tmpdir(), 'warren-native-'))
after(() => rmSync(folder, { recursive: true }))

const sanitizers = ['-g', '-fsanitize=address,undefined', '-fno-sanitize-recover=all']
const shipped = (machine: string) => join(native, `built/linux-${machine}.node`)

function build(machine: string, file: string, options: string[] = []): void {
  const { status, stderr } = spawnSync(join(native, 'build'), [machine, file, ...options], {
    encoding: 'utf8',
  })
  assert.equal(status, 0, stderr)
}

suite('the built addon', () => {
  testShipped('native/build', {
    shipped,
    build(machine) {
      const file = join(folder, `${machine}.node`)
      build(machine, file)
      return file
    },
  })

  test('needs no library, and only Node-API and a few functions that every C library has', () => {
    for (const machine of Object.keys(compilers)) {
      const read = (what: string) =>
        execFileSync('readelf', ['-W', what, shipped(machine)], { encoding: 'utf8' })
      assert.doesNotMatch(read('--dynamic'), /NEEDED|TEXTREL/)
      const wanted = [...read('--dyn-syms').matchAll(/ UND (\w+)/g)].map(([, name]) => name!)
      const others = wanted.filter((name) => !name.startsWith('napi_') && name !== '__tls_get_addr')
      assert.deepEqual(others.sort(), ['__errno_location', 'clone', 'dlopen', 'dlsym'])
    }
  })
})

suite('a process that makes a list of steps', () => {
  const sources = ['start-process.test.c', 'start-process.c'].map((name) => join(native, name))
  const run = (name: string, options: string[]) => {
    const file = join(folder, name)
    execFileSync(ownCompiler, ['-std=c17', '-Wall', '-Wextra', '-Werror', ...options, ...sources, '-o', file])
    const { status, stderr } = spawnSync(file, { encoding: 'utf8' })
    assert.deepEqual([status, stderr], [0, ''])
  }

  test('makes the calls of its list, on little stack', () => run('plain', ['-O2', '-DMOST_STACK_BYTES=512']))

  test('touches only its own memory', () =>
    run('sanitized', ['-O1', ...sanitizers, '-DMOST_STACK_BYTES=8192']))
})

/** Calls that succeed and calls that fail, texts of all lengths, processes that become a program or do not. */
const work = `
  const { openCLibrary } = await import('${import.meta.dirname}/c-library.ts')
  const { addDefaultSignals, addSignalMask, openListProcess } = await import('${import.meta.dirname}/list-process.ts')
  const libc = openCLibrary(process.argv[1])
  const waitpid = libc.func('int waitpid(int pid, void *status, int options)')
  const access = libc.func('int access(const char *path, int mode)')
  const start = openListProcess(libc, (list) => addDefaultSignals(list))
  const run = (program, word) =>
    start(3 * word.length + 1000, (list) => {
      addSignalMask(list)
      const words = list.addresses([program, '-c', 'exit \${#0}', word].map((text) => list.text(text)))
      list.add('execve', list.text(program), words, list.addresses([]))
    })
  const ends = []
  for (const word of ['', 'four', 'x'.repeat(100_000)]) {
    const status = Buffer.alloc(4)
    waitpid(run('/bin/sh', word), status, 0)
    ends.push(status[1])
    try { run('/nowhere', word) } catch ({ code }) { ends.push(code) }
    ends.push(access('/', 0), access('/' + word.slice(0, 5000) + '?', 0), libc.errno())
    try { access({}, 0) } catch ({ name }) { ends.push(name) }
  }
  console.log(JSON.stringify(ends))`

test('the addon touches only its own memory', () => {
  const file = join(folder, 'sanitized.node')
  build(process.arch, file, sanitizers)
  const runtimes = ['libasan.so', 'libubsan.so'].map((name) =>
    execFileSync(ownCompiler, [`-print-file-name=${name}`], { encoding: 'utf8' }).trim(),
  )
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['--no-warnings', '--input-type=module', '-e', work, file],
    {
      encoding: 'utf8',
      // Node itself frees little at its end.
      env: { LD_PRELOAD: runtimes.join(' '), ASAN_OPTIONS: 'detect_leaks=0' },
    },
  )
  assert.equal(status, 0, stderr)
  const each = (length: number, errno: number) => [length, 'ENOENT', 0, -1, errno, 'TypeError']
  assert.deepEqual(JSON.parse(stdout), [...each(0, 2), ...each(4, 2), ...each(100_000 & 0xff, 36)])
})
