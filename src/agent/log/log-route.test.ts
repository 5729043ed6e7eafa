import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { token, useAgent } from '../agent-suite.ts'

type Entry = { sequence: number; level: string; message: string; fields: Record<string, string> }

describe('GET /logs', () => {
  const agent = useAgent()

  /** Reads entries until one is as wanted, and leaves. */
  async function readUntil(wanted: (entry: Entry) => boolean, after = 0): Promise<Entry[]> {
    const response = await agent.open('GET', `/logs?after=${after}`, { 'x-access-token': token })
    assert.equal(response.statusCode, 200)
    const entries: Entry[] = []
    let rest = ''
    for await (const chunk of response.setEncoding('utf8') as AsyncIterable<string>) {
      const lines = (rest + chunk).split('\n')
      rest = lines.pop()!
      entries.push(...lines.map((line) => JSON.parse(line)))
      if (entries.some(wanted)) break
    }
    return entries
  }

  const isEnd = ({ fields }: Entry) => fields.event_type === 'process_end'

  it('is rejected without a token', async () => {
    assert.equal((await agent.fetch('GET', '/logs', { 'x-access-token': 'wrong' })).status, 401)
    assert.equal((await agent.open('GET', '/logs')).statusCode, 401)
  })

  it('rejects an invalid number', async () => {
    assert.equal((await agent.fetch('GET', '/logs?after=-1')).status, 400)
    assert.equal((await agent.fetch('GET', '/logs?after=x')).status, 400)
  })

  it('returns past and future entries, each once, also over two connections', async () => {
    const { pid } = await agent.run('echo first')
    const before = await readUntil(isEnd)
    const reading = readUntil(isEnd, before.at(-1)!.sequence)
    await agent.run('echo second')
    const all = [...before, ...(await reading)].filter(({ fields }) => fields.logger === 'process')
    assert.deepEqual(
      all.map(({ message }) => message),
      [
        ...['Process started: /bin/sh -c echo first', 'first', 'Process ended: exit status 0'],
        ...['Process started: /bin/sh -c echo second', 'second', 'Process ended: exit status 0'],
      ],
    )
    assert.deepEqual(all[1]!.fields, { logger: 'process', event_type: 'stdout', pid: String(pid) })
  })

  it('names files by their path only, and contains no secrets', async () => {
    const path = join(agent.folder, 'note.txt')
    await agent.fetch(
      'POST',
      `/files?path=${path}`,
      { 'content-type': 'application/octet-stream' },
      'contents-of-the-file',
    )
    await agent.fetch('GET', `/files?path=${path}`)
    await agent.unary('filesystem.Filesystem/Remove', { path })
    await agent.run('true', { request: { process: { envs: { KEY: 'value-of-a-variable' } } } })
    const last = ({ message }: Entry) => message === 'Process started: /bin/sh -c true'
    const entries = await readUntil(last)
    assert.deepEqual(
      entries.filter(({ fields }) => fields.logger === 'files').map(({ message }) => message),
      [`File written: ${path}`, `File read: ${path}`, `Removed: ${path}`],
    )
    const text = JSON.stringify(entries)
    for (const secret of [token, 'contents-of-the-file', 'value-of-a-variable']) {
      assert.equal(text.includes(secret), false, secret)
    }
  })

  it('leaves out a process that was started with WARREN_LOG=off', async () => {
    await agent.run('echo looked', { request: { process: { envs: { WARREN_LOG: 'off' } } } })
    await agent.run('echo worked')
    const entries = await readUntil(({ message }) => message === 'worked')
    assert.equal(JSON.stringify(entries).includes('looked'), false)
  })

  it('contains processes that could not be started', async () => {
    await agent.run('', { request: { process: { cmd: '/nowhere/program', args: [] } } })
    const failed = ({ fields }: Entry) => fields.event_type === 'process_start_failed'
    const entry = (await readUntil(failed)).find(failed)!
    assert.deepEqual([entry.level, entry.fields.cmd], ['error', '/nowhere/program'])
  })
})
