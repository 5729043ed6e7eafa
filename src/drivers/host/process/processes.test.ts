import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { afterEach, describe, it } from 'node:test'
import { findMarked, killMarked } from './processes.ts'

const folder = '/nowhere/sandboxes/one'
const mark = ['--bundle', folder] as const

describe('programs that outlived the process that started them', () => {
  let children: ChildProcess[] = []
  afterEach(() => {
    for (const child of children) child.kill('SIGKILL')
    children = []
  })

  async function start(args: string[], options: { uid?: number } = {}): Promise<ChildProcess> {
    const child = spawn('sh', ['-c', 'read line', 'sh', ...args], {
      stdio: ['pipe', 'ignore', 'ignore'],
      ...options,
    })
    children.push(child)
    await once(child, 'spawn')
    return child
  }

  it('are found by their exact arguments and killed; a program that only names the folder is left alone', async () => {
    const ours = await start(['restore', ...mark])
    const others = [
      await start([`tail -f ${folder}/runtime.log --bundle ${folder}`]),
      await start(['--bundle', `${folder}-two`]),
      await start([folder, '--bundle']),
      await start(['--bundle', folder], { uid: 65_534 }),
    ]
    assert.deepEqual(
      (await findMarked([mark])).map(({ pid }) => pid),
      [ours.pid],
    )
    const ended = once(ours, 'exit')
    await killMarked([mark])
    assert.equal((await ended)[1], 'SIGKILL')
    for (const other of others) assert.equal(other.exitCode ?? other.signalCode, null)
  })
})
