import assert from 'node:assert/strict'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { useAgent } from './agent-suite.ts'
import { findOtherNetworks } from './network-namespaces.ts'

describe('GET /network-namespaces', () => {
  const agent = useAgent()
  let proc: string
  beforeEach(async () => {
    proc = await mkdtemp(join(tmpdir(), 'warren-proc-'))
    addThread('self', 'net:[1]')
    addThread('7/task/7', 'net:[1]')
  })
  afterEach(() => rm(proc, { recursive: true }))
  const addThread = (folder: string, network: string | undefined) => {
    mkdirSync(join(proc, folder, 'ns'), { recursive: true })
    if (network) symlinkSync(network, join(proc, folder, 'ns/net'))
  }

  it('needs the token, and answers with a status alone', async () => {
    const asked = (token: Record<string, string>) => agent.fetch('GET', '/network-namespaces', token)
    assert.equal((await asked({ 'x-access-token': 'wrong' })).status, 401)
    assert.ok([204, 409, 503].includes((await asked({})).status))
  })

  it('finds no other network if all threads have the agent’s network or have ended', () => {
    addThread('8/task/8', undefined)
    mkdirSync(join(proc, '9'))
    addThread('sys/task/1', 'net:[2]')
    assert.equal(findOtherNetworks(proc), 'none')
  })

  it('finds the network of a thread that is not the first of its process', () => {
    addThread('7/task/8', 'net:[2]')
    assert.equal(findOtherNetworks(proc), 'some')
  })

  it('looks at a bounded number of threads', () => {
    addThread('7/task/8', 'net:[1]')
    addThread('9/task/9', 'net:[2]')
    assert.deepEqual([findOtherNetworks(proc, 3), findOtherNetworks(proc, 2)], ['some', 'unknown'])
  })

  it('does not know what it cannot read', () => {
    writeFileSync(join(proc, '8'), 'no folder')
    assert.equal(findOtherNetworks(proc), 'unknown')
    assert.equal(findOtherNetworks(join(proc, 'nothing')), 'unknown')
  })
})
