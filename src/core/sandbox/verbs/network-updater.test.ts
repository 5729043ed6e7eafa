import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { addTeam, type Fixture, failsWith, openFixture, request } from '../../../../test/support/domain.ts'
import type { NetworkOptions } from '../../network-policy/network-options.ts'
import { SecretVault } from '../../secret/vault.ts'
import type { Sandbox } from '../row/sandbox.ts'

const all = '0.0.0.0/0'
const open = { allow: [], deny: [], toGate: 'none' }
const withNetwork = (network: NetworkOptions | null, allowInternetAccess: boolean | null = null) =>
  request({ options: { ...request().options, network, allowInternetAccess } })
const rulesOf = ({ driver }: Fixture, { sandboxID }: Pick<Sandbox, 'sandboxID'>) =>
  driver.world.sandboxes.get(sandboxID)?.spec.egress
const clientOf = ({ gate, driver }: Fixture, { sandboxID }: Pick<Sandbox, 'sandboxID'>) =>
  gate.clients.get(String(driver.world.sandboxes.get(sandboxID)?.handle.data.address))

describe('the egress policy of a sandbox', () => {
  it('is that of its create, from the start', async () => {
    await using fixture = await openFixture()
    const { service, team, driver } = fixture
    const started: unknown[] = []
    driver.beforeStarted = async ({ egress }) => void started.push(egress)
    await service.create(team, request())
    await service.create(team, withNetwork({ allowOut: ['1.2.3.4'], denyOut: ['1.2.3.0/24'] }))
    await service.create(team, withNetwork(null, false))
    assert.deepEqual(started, [
      open,
      { allow: ['1.2.3.4'], deny: ['1.2.3.0/24'], toGate: 'none' },
      { allow: [], deny: [all], toGate: 'none' },
    ])
  })

  it('is rejected before anything is made, if it is invalid', async () => {
    await using fixture = await openFixture()
    const { service, team, driver } = fixture
    const bad: NetworkOptions[] = [
      { allowOut: ['::1'] },
      { denyOut: ['a.test'] },
      { allowOut: ['a.test'] },
      { httpsPorts: [49983] },
      { maskRequestHost: 'a b' },
      { egressProxy: { address: 'inside.test:1080' } },
      { egressProxy: { address: '10.0.0.1' } },
    ]
    for (const network of bad) {
      await assert.rejects(service.create(team, withNetwork(network)), failsWith('invalid_argument'))
    }
    assert.deepEqual(await driver.list(), [])
    assert.equal(await service.count({ teamID: team.teamID, states: ['creating', 'running', 'ended'] }), 0)
  })

  it('is replaced as a whole while it runs, without a change of the ingress options', async () => {
    await using fixture = await openFixture()
    const { service, team } = fixture
    const ingress = { allowPublicTraffic: false, maskRequestHost: 'a.test' }
    const sandbox = await service.create(team, withNetwork({ ...ingress, denyOut: ['1.2.3.4'] }, false))
    await service.setNetwork(team, sandbox.sandboxID, { allowInternetAccess: null, allowOut: ['5.6.7.8'] })
    assert.deepEqual(rulesOf(fixture, sandbox), { allow: ['5.6.7.8'], deny: [], toGate: 'none' })
    const changed = await service.get(team, sandbox.sandboxID)
    assert.deepEqual(changed.options.network, { ...ingress, allowOut: ['5.6.7.8'] })
    assert.equal(changed.options.allowInternetAccess, null)
    await service.setNetwork(team, sandbox.sandboxID, { allowInternetAccess: false })
    assert.deepEqual(rulesOf(fixture, sandbox), { allow: [], deny: [all], toGate: 'none' })
    await service.setNetwork(team, sandbox.sandboxID, { allowInternetAccess: null })
    assert.deepEqual(rulesOf(fixture, sandbox), open)
  })

  it('stays unchanged if the new one is invalid', async () => {
    await using fixture = await openFixture()
    const { service, team } = fixture
    const sandbox = await service.create(team, withNetwork({ denyOut: ['1.2.3.4'] }))
    const bad = { allowInternetAccess: null, denyOut: ['a.test'] }
    await assert.rejects(service.setNetwork(team, sandbox.sandboxID, bad), failsWith('invalid_argument'))
    assert.deepEqual(rulesOf(fixture, sandbox), { allow: [], deny: ['1.2.3.4'], toGate: 'none' })
    assert.deepEqual((await service.get(team, sandbox.sandboxID)).options, sandbox.options)
  })

  it('cannot be changed by another team, nor for a sandbox that is paused or gone', async () => {
    await using fixture = await openFixture()
    const { service, team } = fixture
    const sandbox = await service.create(team, request())
    const change = (by = team) => service.setNetwork(by, sandbox.sandboxID, { allowInternetAccess: false })
    await assert.rejects(change(await addTeam(fixture, 'beta')), failsWith('not_found'))
    await service.pause(team, sandbox.sandboxID, { memory: true, requireHealthyAgent: false })
    await assert.rejects(change(), failsWith('not_found'))
    await service.kill(team, sandbox.sandboxID)
    await assert.rejects(change(), failsWith('not_found'))
  })

  it('is kept over a pause, a fork and a restart', async () => {
    await using before = await openFixture()
    const { service, team } = before
    const sandbox = await service.create(team, request())
    const update = { allowInternetAccess: null, allowOut: ['a.test', '1.2.3.4'], denyOut: [all] }
    await service.setNetwork(team, sandbox.sandboxID, update)
    const rules = { allow: ['1.2.3.4'], deny: [all], toGate: 'web' }
    const [fork] = await service.fork(team, sandbox.sandboxID, { count: 1, timeoutMs: 60_000 })
    assert.ok(fork && 'sandbox' in fork)
    assert.deepEqual(rulesOf(before, fork.sandbox), rules)
    assert.deepEqual(clientOf(before, fork.sandbox)?.policy.allowNames, ['a.test'])
    await service.pause(team, sandbox.sandboxID, { memory: true, requireHealthyAgent: false })
    assert.equal(before.gate.clients.size, 1)
    await service.connect(team, sandbox.sandboxID, { timeoutMs: 60_000, memory: true })
    assert.deepEqual(rulesOf(before, sandbox), rules)
    assert.equal(clientOf(before, sandbox)?.sandboxID, sandbox.sandboxID)
    await using after = await before.again()
    assert.equal(after.gate.clients.size, 0)
    await after.reconciler.run()
    assert.deepEqual(clientOf(after, sandbox)?.policy.allowNames, ['a.test'])
    assert.equal(after.gate.clients.size, 2)
  })

  it('denies everything if the key of its credentials is lost, until it is set again or the key is back', async () => {
    const login = { username: 'u', password: 'p' }
    const proxy = { address: '198.51.100.1:1080', ...login }
    const reached = { host: '198.51.100.1', port: 1080, ...login }
    const network = { egressProxy: proxy, allowOut: ['1.2.3.4'], allowPublicTraffic: false }
    await using before = await openFixture()
    const { sandboxID } = await before.service.create(before.team, withNetwork(network, true))
    const one = { sandboxID }
    await using without = await before.again(new SecretVault('5b'.repeat(32)))
    const { service, team } = without
    await without.reconciler.run()
    const nothing = { allow: [], deny: [all], toGate: 'none' }
    assert.deepEqual(rulesOf(without, one), nothing)
    const [known] = without.gate.clients.values()
    assert.deepEqual([known?.policy.internet, known?.policy.proxy], [false, null])
    const { options } = await service.get(team, sandboxID)
    assert.deepEqual(
      [options.allowInternetAccess, options.network],
      [false, { allowPublicTraffic: false }],
      'how it is reached stays',
    )
    await service.pause(team, sandboxID, { memory: true, requireHealthyAgent: false })
    await service.connect(team, sandboxID, { timeoutMs: 60_000, memory: true })
    assert.deepEqual(rulesOf(without, one), nothing)
    await using back = await without.again()
    await back.reconciler.run()
    assert.deepEqual(clientOf(back, one)?.policy.proxy, reached)
    await using lost = await back.again(new SecretVault('5c'.repeat(32)))
    await lost.reconciler.run()
    await lost.service.setNetwork(team, sandboxID, { allowInternetAccess: null, egressProxy: proxy })
    assert.deepEqual(clientOf(lost, one)?.policy.proxy, reached)
  })

  it('is applied after a crash between the row and the kernel', async () => {
    await using before = await openFixture()
    const { service, team, driver } = before
    const sandbox = await service.create(team, request())
    driver.beforeLimited = () => Promise.reject(new Error('the process died here'))
    const change = service.setNetwork(team, sandbox.sandboxID, { allowInternetAccess: false })
    await assert.rejects(change, /died here/)
    assert.deepEqual(rulesOf(before, sandbox), open)
    await using after = await before.again()
    await after.reconciler.run()
    assert.deepEqual(rulesOf(after, sandbox), { allow: [], deny: [all], toGate: 'none' })
  })

  it('is the last of many changes at once, in the row and in the kernel', async () => {
    await using fixture = await openFixture()
    const { service, team, driver } = fixture
    const sandbox = await service.create(team, request())
    let waits = 20
    driver.beforeLimited = async () => {
      for (let turn = waits--; turn > 0; turn--) await new Promise((resolve) => setImmediate(resolve))
    }
    const changes = Array.from({ length: 20 }, (_, at) =>
      service.setNetwork(team, sandbox.sandboxID, { allowInternetAccess: null, denyOut: [`1.2.3.${at}`] }),
    )
    await Promise.all(changes)
    const { options } = await service.get(team, sandbox.sandboxID)
    assert.deepEqual(rulesOf(fixture, sandbox)?.deny, options.network?.denyOut)
  })

  it('is known to the gate only as long as it contains names and the sandbox runs', async () => {
    await using fixture = await openFixture()
    const { service, team, gate, agent } = fixture
    const sandbox = await service.create(team, withNetwork({ allowOut: ['a.test'], denyOut: [all] }))
    assert.equal(clientOf(fixture, sandbox)?.teamID, team.teamID)
    await service.setNetwork(team, sandbox.sandboxID, { allowInternetAccess: null })
    assert.equal(gate.clients.size, 0)
    const login = { username: 'u', password: 'p' }
    const proxy = { address: '198.51.100.1:1080', ...login }
    const reached = { host: '198.51.100.1', port: 1080, ...login }
    await service.setNetwork(team, sandbox.sandboxID, { allowInternetAccess: null, egressProxy: proxy })
    assert.deepEqual(clientOf(fixture, sandbox)?.policy.proxy, reached)
    assert.equal(rulesOf(fixture, sandbox)?.toGate, 'all')
    const [fork] = await service.fork(team, sandbox.sandboxID, { count: 1, timeoutMs: 60_000 })
    assert.ok(fork && 'sandbox' in fork)
    assert.deepEqual(clientOf(fixture, fork.sandbox)?.policy.proxy, reached)
    await service.kill(team, fork.sandbox.sandboxID)
    await service.kill(team, sandbox.sandboxID)
    assert.equal(gate.clients.size, 0)
    agent.fail = new Error('no agent')
    await assert.rejects(service.create(team, withNetwork({ allowOut: ['a.test'], denyOut: [all] })))
    assert.equal(gate.clients.size, 0)
  })
})

describe('the authority of the gate', () => {
  const rules = { 'a.test': [{ transform: { headers: { 'X-Key': 'x' } } }] }

  it('is trusted inside if there are header rules, from the start or since they were added', async () => {
    await using fixture = await openFixture()
    const { service, team, agent } = fixture
    const first = await service.create(team, withNetwork({ rules }))
    const second = await service.create(team, withNetwork({ allowOut: ['a.test'], denyOut: [all] }))
    assert.equal(agent.trusting.length, 1)
    await service.setNetwork(team, second.sandboxID, { allowInternetAccess: null, rules })
    assert.equal(new Set(agent.trusting).size, 2)
    await service.pause(team, first.sandboxID, { memory: true, requireHealthyAgent: false })
    await service.connect(team, first.sandboxID, { timeoutMs: 60_000, memory: true })
    assert.equal(agent.trusting.length, 3)
  })

  it('is trusted in addition to those that every sandbox trusts', async () => {
    await using fixture = await openFixture({ ports: { extraCA: 'the company; ' } })
    const { service, team, agent } = fixture
    const { sandboxID } = await service.create(team, request())
    assert.deepEqual(agent.authorities, ['the company; '])
    await service.setNetwork(team, sandboxID, { allowInternetAccess: null, rules })
    assert.deepEqual(agent.authorities.slice(1), ['the company; the authority'])
    await service.pause(team, sandboxID, { memory: true, requireHealthyAgent: false })
    await service.connect(team, sandboxID, { timeoutMs: 60_000, memory: true })
    assert.equal(agent.authorities.at(-1), 'the company; the authority')
  })
})
