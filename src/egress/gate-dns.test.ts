import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { connect } from 'node:net'
import { describe, it } from 'node:test'
import { type DnsAnswer, dnsQuery, readDnsAnswer } from './dns-fixture.ts'
import { startWorld, type World } from './gate-fixture.ts'

const within = { timeout: 300_000 }
const types = { A: 1, NS: 2, NULL: 10, MX: 15, TXT: 16, AAAA: 28, SVCB: 64, HTTPS: 65, ANY: 255 }
const codes = { ok: 0, failed: 2, noSuchName: 3, refused: 5 }

async function sendUdp(
  world: World,
  message: Buffer,
  waitMs = 3000,
  from = world.sandbox,
): Promise<Buffer | null> {
  const socket = createSocket('udp4')
  try {
    socket.bind(0, from)
    await once(socket, 'listening')
    socket.send(message, world.gate.ports.dns, '127.0.0.1')
    const signal = AbortSignal.timeout(waitMs)
    const [answer] = (await once(socket, 'message', { signal }).catch(() => [null])) as [Buffer | null]
    return answer
  } finally {
    socket.close()
  }
}

async function ask(world: World, name: string, type = types.A, edns?: number): Promise<DnsAnswer> {
  const answer = await sendUdp(world, dnsQuery(name, type, 4711, edns))
  assert.ok(answer, `no answer for ${name}`)
  assert.equal(answer.readUInt16BE(0), 4711)
  return readDnsAnswer(answer)
}

async function askTcp(world: World, messages: Buffer[]): Promise<DnsAnswer[]> {
  const socket = connect({ host: '127.0.0.1', port: world.gate.ports.dns, localAddress: world.sandbox })
  for (const message of messages) {
    const length = Buffer.from([message.length >> 8, message.length & 255])
    socket.write(Buffer.concat([length, message]))
  }
  let received = Buffer.alloc(0)
  const answers: DnsAnswer[] = []
  socket.on('error', () => {})
  for await (const chunk of socket) {
    received = Buffer.concat([received, chunk])
    while (received.length >= 2 && received.length >= 2 + received.readUInt16BE(0)) {
      answers.push(readDnsAnswer(received.subarray(2, 2 + received.readUInt16BE(0))))
      received = received.subarray(2 + received.readUInt16BE(0))
    }
    if (answers.length === messages.length) break
  }
  return answers
}

describe('DNS at the gate', within, () => {
  it('rejects a query to a server that the policy denies', async () => {
    await using world = await startWorld()
    world.dns.zone.set('good.example', ['192.0.2.1'])
    for (const policy of [{}, { internet: true, denyAddresses: ['192.0.2.53'] }]) {
      world.admit(policy)
      assert.equal((await ask(world, 'good.example')).code, codes.noSuchName)
    }
    assert.equal(world.dns.asked.length, 0)
  })

  it('answers for allowed names only; others do not exist, and no server is asked', async () => {
    await using world = await startWorld()
    world.dns.zone.set('good.example', ['192.0.2.1', '192.0.2.2']).set('bad.example', ['192.0.2.3'])
    world.dns.zone.set('a.sub.example', ['192.0.2.4']).set('alias.example', ['cname:bad.example'])
    world.admit({ allowNames: ['good.example', '*.sub.example', 'alias.example', 'gone.example'] })
    assert.deepEqual((await ask(world, 'good.example')).addresses, ['192.0.2.1', '192.0.2.2'])
    assert.deepEqual((await ask(world, 'GooD.eXample', types.A, 1232)).addresses.length, 2)
    assert.deepEqual((await ask(world, 'a.sub.example')).addresses, ['192.0.2.4'])
    assert.deepEqual((await ask(world, 'alias.example')).addresses, ['192.0.2.3'])
    assert.equal((await ask(world, 'gone.example')).code, codes.noSuchName)
    const asked = world.dns.asked.length
    const stolen = 'c2VjcmV0IGRhdGEgYXMgYSBuYW1l.evil.example'
    for (const name of [
      'bad.example',
      'x.good.example',
      'sub.example',
      stolen,
      'good.example\0',
      'good example',
      '',
    ]) {
      assert.equal((await ask(world, name)).code, codes.noSuchName, name)
    }
    assert.equal(world.dns.asked.length, asked)
  })

  it('returns only addresses if names are limited', async () => {
    await using world = await startWorld()
    world.dns.zone.set('good.example', ['192.0.2.1', 'txt:hello'])
    world.admit({ allowNames: ['*.example', 'good.example'] })
    for (const type of [types.AAAA, types.HTTPS, types.SVCB, types.TXT, types.NULL, types.NS, types.MX]) {
      const { code, records } = await ask(world, 'good.example', type)
      assert.deepEqual([code, records], [codes.ok, 0], `type ${type}`)
    }
    assert.equal((await ask(world, 'good.example', types.ANY)).code, codes.refused)
    assert.deepEqual(world.dns.asked, [])
  })

  it('answers nothing if nothing is allowed', async () => {
    await using world = await startWorld()
    world.dns.zone.set('good.example', ['192.0.2.1'])
    world.admit({ headerRules: [{ name: 'good.example', headers: {} }] })
    assert.equal((await ask(world, 'good.example')).code, codes.noSuchName)
    world.admit({ internet: true, denyAddresses: ['0.0.0.0/0'], allowAddresses: ['192.0.2.9'] })
    assert.equal((await ask(world, 'good.example', types.TXT)).code, codes.noSuchName)
    assert.deepEqual(world.dns.asked, [])
  })

  it('answers all queries except HTTPS and ANY if the internet is open', async () => {
    await using world = await startWorld()
    world.dns.zone.set('any.example', ['192.0.2.1', 'txt:hello'])
    world.admit({ internet: true, headerRules: [{ name: 'x.example', headers: {} }] })
    assert.deepEqual((await ask(world, 'any.example')).addresses, ['192.0.2.1'])
    assert.equal((await ask(world, 'any.example', types.TXT)).records, 1)
    assert.deepEqual((await ask(world, 'any.example', types.HTTPS)).records, 0)
    assert.equal((await ask(world, 'any.example', types.ANY)).code, codes.refused)
  })

  it('asks the servers of the policy, or none, and never closed ones', async () => {
    await using world = await startWorld({ dnsServers: ['127.0.0.1:1'] })
    world.dns.zone.set('good.example', ['192.0.2.1'])
    world.admit({ allowNames: ['good.example'], dnsServers: [world.dns.server] })
    assert.deepEqual((await ask(world, 'good.example')).addresses, ['192.0.2.1'])
    world.admit({ allowNames: ['good.example'], dnsServers: [] })
    assert.equal((await ask(world, 'good.example')).code, codes.refused)
    world.admit({ allowNames: ['good.example'], dnsServers: null })
    assert.equal((await ask(world, 'good.example')).code, codes.failed)
    const asked = world.dns.asked.length
    world.closed.add(world.address(53))
    world.admit({ allowNames: ['good.example'], dnsServers: [world.dns.server] })
    assert.equal((await ask(world, 'good.example')).code, codes.refused)
    assert.equal(world.dns.asked.length, asked)
  })

  it('uses TCP for messages too long for UDP, towards servers and sandboxes', async () => {
    await using world = await startWorld()
    const many = Array.from({ length: 80 }, (_, at) => `192.0.2.${at + 1}`)
    world.dns.zone.set('many.example', many).set('some.example', many.slice(0, 20))
    world.admit({ allowNames: ['*'] })
    const short = await ask(world, 'many.example')
    assert.deepEqual([short.truncated, short.addresses.length], [true, 0])
    assert.equal((await ask(world, 'some.example')).truncated, true)
    assert.equal((await ask(world, 'some.example', types.A, 1232)).addresses.length, 20)
    const [whole, refused] = await askTcp(world, [
      dnsQuery('many.example'),
      dnsQuery('many.example', types.ANY),
    ])
    assert.deepEqual([whole!.addresses.length, refused!.code], [80, codes.refused])
  })

  it('ignores an answer to another question', async () => {
    await using world = await startWorld()
    world.dns.zone.set('good.example', ['192.0.2.1'])
    world.admit({ allowNames: ['*'] })
    world.dns.tamper = (answer, query) => {
      const wrongID = Buffer.from(answer)
      wrongID.writeUInt16BE((answer.readUInt16BE(0) + 1) & 0xffff, 0)
      wrongID[wrongID.length - 1] = 66
      const wrongName = Buffer.from(answer)
      wrongName[13] = 'x'.charCodeAt(0)
      wrongName[wrongName.length - 1] = 66
      return [wrongID, wrongName, query, answer.subarray(0, 5), Buffer.alloc(0), answer]
    }
    assert.deepEqual((await ask(world, 'good.example')).addresses, ['192.0.2.1'])
  })

  it('returns a failure if no server answers', async () => {
    await using world = await startWorld()
    world.dns.zone.set('good.example', ['192.0.2.1'])
    world.dns.tamper = () => null
    world.admit({ allowNames: ['*'] })
    assert.equal((await ask(world, 'good.example')).code, codes.failed)
  })

  it('does not answer strangers, nor messages that are not questions', async () => {
    await using world = await startWorld()
    world.dns.zone.set('good.example', ['192.0.2.1'])
    const question = dnsQuery('good.example')
    assert.equal(await sendUdp(world, question, 200), null)
    world.admit({ internet: true })
    assert.equal(await sendUdp(world, question, 200, world.address(201)), null)
    const answerLike = Buffer.from(question)
    answerLike[2] = 0x81
    const twoQuestions = Buffer.from(question)
    twoQuestions[5] = 2
    const update = Buffer.from(question)
    update[2] = 0x28
    for (const message of [
      answerLike,
      twoQuestions,
      update,
      question.subarray(0, 20),
      Buffer.alloc(0),
      Buffer.alloc(9),
    ]) {
      assert.equal(await sendUdp(world, message, 100), null)
    }
    assert.deepEqual(world.dns.asked, [])
    world.forget()
    assert.equal(await sendUdp(world, question, 200), null)
  })

  it('limits the queries of one sandbox', async () => {
    await using world = await startWorld({ limits: { questionsPerSecond: 0, questionBurst: 5 } })
    world.dns.zone.set('good.example', ['192.0.2.1'])
    world.admit({ allowNames: ['*'] })
    world.admit({ allowNames: ['*'] }, world.address(201))
    const answers = await askTcp(
      world,
      Array.from({ length: 8 }, () => dnsQuery('good.example')),
    )
    assert.deepEqual(
      answers.map(({ code }) => code),
      [0, 0, 0, 0, 0, 5, 5, 5],
    )
    assert.equal(world.dns.asked.length, 5)
    const other = await sendUdp(world, dnsQuery('good.example'), 2000, world.address(201))
    assert.equal(readDnsAnswer(other!).code, codes.ok)
  })
})
