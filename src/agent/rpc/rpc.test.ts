import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { suite, test } from 'node:test'
import { fuzz, type Random } from '../../../test/support/fuzz.ts'
import { envelope, token, useAgent } from '../agent-suite.ts'

const agent = useAgent()
const streams = ['filesystem.Filesystem/WatchDir', 'process.Process/Connect', 'process.Process/StreamInput']

/** Sends bytes as one request body and reads until the agent has answered or hung up. */
async function send(path: string, type: string, body: Buffer): Promise<string> {
  const socket = connect(agent.port, '127.0.0.1')
  await once(socket, 'connect')
  socket.write(
    `POST /${path} HTTP/1.1\r\nHost: x\r\nX-Access-Token: ${token}\r\nContent-Type: ${type}\r\n` +
      // What happens to be a valid request for a stream must end as well.
      `Connect-Timeout-Ms: 100\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n`,
  )
  socket.write(body)
  let answer = ''
  for await (const chunk of socket) answer += chunk.toString('latin1')
  return answer
}

function malformed(random: Random): Buffer {
  const good = envelope({ path: '/nowhere', process: { pid: 999_999 } })
  const kinds: (() => Buffer)[] = [
    () => random.bytes(random.below(64)),
    () => good.subarray(0, random.below(good.length)),
    () => {
      const changed = Buffer.from(good)
      for (let i = random.below(4); i >= 0; i--) changed[random.below(changed.length)] = random.below(256)
      return changed
    },
    () => {
      const changed = Buffer.from(good)
      changed.writeUInt32BE(random.pick([0, 1, 0xffff_ffff, 0x7fff_ffff, 32 * 1024 * 1024 + 1, 5]), 1)
      return changed
    },
    () => Buffer.concat([good, random.bytes(random.below(32))]),
    () => Buffer.concat([envelope({}, random.below(256)), good]),
    () => nested(random.pick(['[', '{"a":', '{"process":'])),
  ]
  return random.pick(kinds)()
}

function nested(text: string): Buffer {
  const payload = Buffer.from(text.repeat(20_000))
  const head = Buffer.alloc(5)
  head.writeUInt32BE(payload.length, 1)
  return Buffer.concat([head, payload])
}

suite('malformed messages', () => {
  test('get an error or the end of the stream, and the agent keeps working', async () => {
    await fuzz(1, async (random) => {
      const answer = await send(random.pick(streams), 'application/connect+json', malformed(random))
      assert.match(answer, /^HTTP\/1\.1 (200|4\d\d|5\d\d) /)
    })
    assert.equal((await agent.fetch('GET', '/health')).status, 204)
  })

  test('get a rejection in single calls, and the agent keeps working', async () => {
    await fuzz(2, async (random) => {
      const answer = await send(
        'filesystem.Filesystem/Stat',
        'application/json',
        malformed(random).subarray(5),
      )
      assert.match(answer, /^HTTP\/1\.1 (200|4\d\d|5\d\d) /)
    })
    assert.equal((await agent.fetch('GET', '/health')).status, 204)
  })

  test('get no memory for the gigabytes that they announce', async () => {
    const before = process.memoryUsage().arrayBuffers
    const sockets = await Promise.all(
      Array.from({ length: 20 }, async () => {
        const socket = connect(agent.port, '127.0.0.1')
        await once(socket, 'connect')
        socket.write(
          `POST /filesystem.Filesystem/WatchDir HTTP/1.1\r\nHost: x\r\nX-Access-Token: ${token}\r\n` +
            'Content-Type: application/connect+json\r\nTransfer-Encoding: chunked\r\n\r\n' +
            '6\r\n\x00\x7f\x7f\x7f\x7f{\r\n',
        )
        const [answer] = await once(socket, 'data')
        assert.match(String(answer), /resource_exhausted|invalid_argument/)
        return socket
      }),
    )
    const grown = process.memoryUsage().arrayBuffers - before
    for (const socket of sockets) socket.destroy()
    assert.ok(grown < 16 * 1024 * 1024, `${grown} bytes more`)
  })
})
