import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  closeSync,
  constants,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
} from 'node:fs'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, describe, it } from 'node:test'
import { eventually } from '../../test/support/eventually.ts'
import type { CallList } from './call-list.ts'
import { runList } from './run-list.ts'

const folder = mkdtempSync(join(tmpdir(), 'warren-list-'))
const pipesOfTest: string[] = []
const openPipes: number[] = []
// A failed test leaves processes waiting at its pipes, and a list keeps Node running until it is over. An open pipe
// lets all of them go on.
afterEach(() => {
  const { O_RDWR, O_NONBLOCK } = constants
  for (const path of pipesOfTest.splice(0)) openPipes.push(openSync(path, O_RDWR | O_NONBLOCK))
})
after(() => {
  for (const pipe of openPipes) closeSync(pipe)
  rmSync(folder, { recursive: true })
})

const currentFolder = -100
const writeOnly = 1
const create = 0o100
const enoughBytes = 1000

function fifo(name: string): string {
  const path = join(folder, name)
  execFileSync('mkfifo', [path])
  pipesOfTest.push(path)
  return path
}

/** Waits until somebody reads from the pipe, then makes the file. */
const waitAndMake = (pipe: string, file: string) => (list: CallList) => {
  list.add('openat', currentFolder, list.text(pipe), writeOnly)
  list.add('openat', currentFolder, list.text(file), writeOnly | create, 0o600)
}

const childrenOf = (pid: number) =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number)

/** The child that the work started: other tests of this process may have children too. */
function startedBy<T>(work: () => T): [ran: T, processes: number[]] {
  const before = new Set(childrenOf(process.pid))
  const ran = work()
  return [ran, childrenOf(process.pid).filter((pid) => !before.has(pid))]
}

/** True if the process of a list waits in `openat` and has only the files open that its list opened. */
const assertHoldsNothing = (pid: number) => assert.deepEqual(readdirSync(`/proc/${pid}/fd`), [])

describe('a list of system calls in a process of its own', () => {
  it('runs to its end beside others, and holds none of our files open', async () => {
    const pipes = ['first', 'second'].map(fifo)
    const files = pipes.map((pipe) => `${pipe}-made`)
    const [ran, processes] = startedBy(() =>
      pipes.map((pipe, index) => runList(enoughBytes, waitAndMake(pipe, files[index]!))),
    )
    assert.equal(processes.length, 2)
    await eventually(() => processes.forEach(assertHoldsNothing))
    await readFile(pipes[1]!)
    await ran[1]
    assert.deepEqual(files.map(existsSync), [false, true])
    await readFile(pipes[0]!)
    await ran[0]
    assert.deepEqual(files.map(existsSync), [true, true])
    const left = new Set(childrenOf(process.pid))
    assert.ok(!processes.some((pid) => left.has(pid)))
  })

  it('ends with the first failure, unless that call may fail', async () => {
    const file = join(folder, 'after-failure')
    const make = (list: CallList) =>
      list.add('openat', currentFolder, list.text(file), writeOnly | create, 0o600)
    const failed = runList(enoughBytes, (list) => {
      list.add('chdir', list.text('/nowhere'))
      make(list)
    })
    await assert.rejects(failed, { code: 'ENOENT', syscall: 'chdir' })
    assert.ok(!existsSync(file))
    await runList(enoughBytes, (list) => {
      list.addOptional('chdir', list.text('/nowhere'))
      make(list)
    })
    assert.ok(existsSync(file))
  })

  it('is rejected before a process is started if it has more calls or longer texts than its memory holds', async () => {
    // The list closes what is open first, and exits last.
    const max = 64 - 2
    const closing = (count: number) => (list: CallList) => {
      for (let index = 0; index < count; index++) list.addOptional('close', 0)
    }
    await runList(0, closing(max))
    const [ran, processes] = startedBy(() => runList(0, closing(max + 1)))
    await assert.rejects(
      ran,
      /^AppError: A list of system calls is too long: it has more than 64 system calls\.$/,
    )
    assert.deepEqual(processes, [])
    const long = 'x'.repeat(1024 * 1024)
    await assert.rejects(
      runList(0, (list) => list.add('chdir', list.text(long))),
      /it has texts of more than \d+ bytes/,
    )
    await runList(long.length + 1, (list) => list.addOptional('chdir', list.text(long)))
    await runList(0, closing(max))
  })

  it('fails if a signal ends it', async () => {
    const pipe = fifo('of-killed')
    const [ran, processes] = startedBy(() =>
      runList(enoughBytes, waitAndMake(pipe, join(folder, 'never-made'))),
    )
    process.kill(processes[0]!, 'SIGKILL')
    await assert.rejects(ran, /A signal ended/)
  })

  const inAnotherProcess = (pipe: string, file: string) => {
    const script = `import { runList } from '${import.meta.dirname}/run-list.ts'
      await runList(${enoughBytes}, (list) => {
        list.add('openat', ${currentFolder}, list.text('${pipe}'), ${writeOnly})
        list.add('openat', ${currentFolder}, list.text('${file}'), ${writeOnly | create}, 0o600)
      })
      console.log('done')`
    return spawn(process.execPath, ['--input-type=module', '--eval', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
  }

  it('keeps Node running until it is over', async () => {
    const pipe = fifo('of-waiting')
    const child = inAnotherProcess(pipe, join(folder, 'waited'))
    let said = ''
    child.stdout.on('data', (text) => {
      said += text
    })
    const ended = once(child, 'close')
    await Promise.race([readFile(pipe), ended])
    const [exitCode] = await ended
    assert.deepEqual([exitCode, said], [0, 'done\n'])
  })

  it('continues if the process that started it is killed', async () => {
    const [pipe, file] = [fifo('of-orphan'), join(folder, 'made-by-orphan')]
    const child = inAnotherProcess(pipe, file)
    let orphan = 0
    await eventually(() => {
      orphan = childrenOf(child.pid!)[0]!
      assertHoldsNothing(orphan)
    })
    child.kill('SIGKILL')
    await once(child, 'close')
    assert.ok(!existsSync(file))
    await readFile(pipe)
    await eventually(() => assert.ok(existsSync(file)))
    await eventually(() => assert.ok(!existsSync(`/proc/${orphan}`)))
  })
})
