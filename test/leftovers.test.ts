import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { afterEach, describe, it } from 'node:test'
import { freeNetwork } from './support/leftovers.ts'
import { names, run } from './support/traces.ts'
import { testPlace } from './support/warren.ts'

const instance = `feed0${testPlace}`
const folder = `/run/warren-${instance}`
const namespace = `warren-${instance}-0`
const subnet = `10.240.${testPlace}.0/24`

/** What a driver whose process was killed leaves of a free slot, and of itself. */
function leaveSlot(owner: string): void {
  const link = `w${instance}0`
  run('ip', 'netns', 'add', namespace)
  run('ip', 'link', 'add', link, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', namespace)
  run('ip', 'address', 'add', subnet.replace('0/24', '1/30'), 'dev', link)
  run('ip', 'link', 'set', link, 'up')
  mkdirSync(folder, { recursive: true })
  writeFileSync(`${folder}/owner`, owner)
}

const startOf = (pid: number) => readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')[19]

describe('a network with leftovers of an interrupted test', () => {
  afterEach(() => {
    run('ip', 'netns', 'del', namespace)
    rmSync(folder, { recursive: true, force: true })
  })

  it('is freed for the next test', async () => {
    leaveSlot(`${process.pid} 1`)
    assert.match(run('ip', 'route', 'show', 'root', subnet), new RegExp(`w${instance}0`))
    await freeNetwork(subnet)
    assert.equal(run('ip', 'route', 'show', 'root', subnet), '')
    assert.ok(!names('/run/netns').includes(namespace))
    assert.ok(!names('/run').includes(`warren-${instance}`))
  })

  it('is freed of the rules of a driver that never had a slot', async () => {
    const table = `warren_${instance}`
    run('nft', 'add', 'table', 'inet', table)
    run('nft', 'add', 'chain', 'inet', table, 'to-host')
    run(
      'nft',
      'add',
      'rule',
      'inet',
      table,
      'to-host',
      'ip',
      'daddr',
      subnet.replace('0/24', '253'),
      'accept',
    )
    assert.match(run('nft', 'list', 'tables'), new RegExp(table))
    await freeNetwork(subnet)
    assert.doesNotMatch(run('nft', 'list', 'tables'), new RegExp(table))
  })

  it('is left alone while the process that made the leftovers lives', async () => {
    leaveSlot(`${process.pid} ${startOf(process.pid)}`)
    await freeNetwork(subnet)
    assert.ok(names('/run/netns').includes(namespace))
  })
})
