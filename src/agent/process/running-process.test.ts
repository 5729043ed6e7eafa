import assert from 'node:assert/strict'
import { PassThrough } from 'node:stream'
import { suite, type TestContext, test } from 'node:test'
import { RunningProcess } from './running-process.ts'

/** Higher than any pid or group of Linux: signals to it reach nobody. */
const nobody = 2 ** 22 + 1
const config = { cmd: 'x', args: [], envs: {} }
const owner = { budget: { reserve: () => false, give() {} }, ended() {} }

/** A process whose output is read by hand or as a stream, on a clock that is turned by hand. */
function run(t: TestContext) {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const seen: string[] = []
  let written = ''
  const output = {
    name: 'stdout' as const,
    open: () => {
      seen.push('stream')
      return new PassThrough()
    },
    isEmpty: () => written === '',
    drain: (onBytes: (bytes: Buffer) => void) => {
      if (written !== '') onBytes(Buffer.from(written))
      return true
    },
  }
  const stdin = new PassThrough()
  const process = new RunningProcess(nobody, config, undefined, { stdin, outputs: [output] }, owner)
  process.subscribe({
    isFull: false,
    push: ({ event }) => void seen.push(event!.case!),
    flush: () => void seen.push('told'),
  })
  return {
    process,
    seen,
    write: (text: string) => {
      written += text
    },
    pass: (ms: number) => t.mock.timers.tick(ms),
  }
}

suite('a kill', () => {
  test('is over once the process has exited, for all who asked', async (t) => {
    const { process, pass } = run(t)
    const kills = [process.kill(), process.kill()]
    let isOver = false
    void Promise.race(kills).then(() => {
      isOver = true
    })
    pass(4999)
    await new Promise((resolve) => setImmediate(resolve))
    assert.equal(isOver, false)
    process.exited(null, 'SIGKILL')
    await Promise.all(kills)
    await process.kill()
  })

  test('of a process that the kernel keeps says so after a while', async (t) => {
    const { process, pass } = run(t)
    const kill = assert.rejects(
      process.kill(),
      /process \d+ was sent SIGKILL, but the kernel has not let it go/,
    )
    pass(5000)
    await kill
  })
})

suite('the answer for a process', () => {
  test('is one message if the process ends soon', (t) => {
    const { process, seen, write, pass } = run(t)
    write('hello')
    pass(9)
    process.exited(0, null)
    pass(100)
    assert.deepEqual(seen, ['data', 'end'])
  })

  test('is the start, then all the rest, if the process is silent until then and ends soon after', (t) => {
    const { process, seen, write, pass } = run(t)
    pass(10)
    pass(19)
    assert.deepEqual(seen, ['told'])
    write('hello')
    process.exited(0, null)
    pass(100)
    assert.deepEqual(seen, ['told', 'data', 'end'])
  })

  test('streams the output, together with the start if the process had written by then', (t) => {
    const { seen, write, pass } = run(t)
    write('hello')
    pass(10)
    assert.deepEqual(seen, ['stream', 'told'])
  })

  test('streams the output if the process stays silent at first', (t) => {
    const { seen, pass } = run(t)
    pass(10)
    pass(20)
    assert.deepEqual(seen, ['told', 'stream', 'told'])
  })

  test('streams the output once the process was given input', async (t) => {
    const { process, seen } = run(t)
    await process.writeStdin(Buffer.from('x'), new AbortController().signal)
    assert.deepEqual(seen, ['stream', 'told'])
  })
})
