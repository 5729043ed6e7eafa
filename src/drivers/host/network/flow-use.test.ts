import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { countFlows } from './flow-use.ts'

const line = (from: string, to: string) =>
  `ipv4     2 tcp      6 431999 ESTABLISHED src=${from} dst=${to} sport=1 dport=2 src=${to} dst=${from} sport=2 dport=1 [ASSURED] mark=0 zone=0 use=2`

test('connections count for the sandbox that opened them, and not for the one that they lead to', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'warren-flows-'))
  const file = join(folder, 'table')
  const [one, two] = ['10.213.0.2', '10.213.0.6']
  const lines = [line(one, '203.0.113.1'), line(one, '203.0.113.2'), line('10.1.1.1', two), line(two, one)]
  await writeFile(file, `${lines.join('\n')}\n`)
  const counts = await countFlows(new Set([one, two]), file)
  assert.deepEqual(
    [...counts!],
    [
      [one, 2],
      [two, 1],
    ],
  )
  assert.equal(await countFlows(new Set([one]), join(folder, 'none')), undefined)
  await rm(folder, { recursive: true })
})
