import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { Agent as HttpAgent, type IncomingMessage, request } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { gunzipSync, gzipSync } from 'node:zlib'
import { token, useAgent } from '../agent-suite.ts'

const agent = useAgent()
const at = (name: string) => join(agent.folder, name)
const url = (path: string, more = '') => `/files?path=${encodeURIComponent(path)}${more}`
const octets = { 'content-type': 'application/octet-stream' }

function form(parts: { filename?: string; name?: string; body: string | Buffer }[]) {
  const pieces = parts.flatMap(({ filename, name = 'file', body }) => [
    Buffer.from(
      `--XX\r\nContent-Disposition: form-data; name="${name}"${filename === undefined ? '' : `; filename="${filename}"`}\r\n`,
    ),
    Buffer.from('Content-Type: application/octet-stream\r\n\r\n'),
    Buffer.from(body),
    Buffer.from('\r\n'),
  ])
  return Buffer.concat([...pieces, Buffer.from('--XX--\r\n')])
}
async function withSmallDisk(name: string, use: () => Promise<void>): Promise<void> {
  mkdirSync(at(name))
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', at(name)])
  try {
    await use()
  } finally {
    execFileSync('umount', [at(name)])
  }
}
const formType = { 'content-type': 'multipart/form-data; boundary=XX' }

suite('reading', () => {
  test('gives the bytes with their length, name and type', async () => {
    writeFileSync(at('a.txt'), 'hello')
    const answer = await agent.fetch('GET', url(at('a.txt')))
    assert.equal(answer.status, 200)
    assert.equal(answer.body.toString(), 'hello')
    assert.equal(answer.headers['content-length'], '5')
    assert.equal(answer.headers['content-disposition'], 'inline; filename=a.txt')
    assert.equal(answer.headers['content-type'], 'text/plain; charset=utf-8')
    assert.equal(answer.headers.vary, 'Accept-Encoding')
  })

  test('an empty file has Content-Length 0', async () => {
    writeFileSync(at('empty'), '')
    const answer = await agent.fetch('GET', url(at('empty')))
    assert.equal(answer.status, 200)
    assert.equal(answer.headers['content-length'], '0')
  })

  test('a file of /proc is read to its end', async () => {
    assert.match((await agent.fetch('GET', url('/proc/self/status'))).body.toString(), /^Name:[\s\S]*VmRSS/)
  })

  test('a folder, a missing file and a device are rejected with the messages of the protocol', async () => {
    const folder = await agent.fetch('GET', url(agent.folder))
    assert.deepEqual(folder.json, { code: 400, message: `path '${agent.folder}' is a directory` })
    const missing = await agent.fetch('GET', url(at('nothing')))
    assert.deepEqual([missing.status, missing.json.message], [404, `path '${at('nothing')}' does not exist`])
    assert.equal((await agent.fetch('GET', url('/dev/zero'))).status, 400)
  })

  test('an unknown user is rejected', async () => {
    const answer = await agent.fetch('GET', url(at('a.txt'), '&username=nouser'))
    assert.equal(answer.status, 401)
    assert.deepEqual(answer.json, {
      code: 401,
      message: "error looking up user 'nouser': user: unknown user nouser",
    })
  })

  test('a range gives its bytes, one beyond the end is rejected', async () => {
    writeFileSync(at('digits'), '0123456789')
    const middle = await agent.fetch('GET', url(at('digits')), { range: 'bytes=2-4' })
    assert.deepEqual(
      [middle.status, middle.body.toString(), middle.headers['content-range']],
      [206, '234', 'bytes 2-4/10'],
    )
    const tail = await agent.fetch('GET', url(at('digits')), { range: 'bytes=-3' })
    assert.equal(tail.body.toString(), '789')
    assert.equal((await agent.fetch('GET', url(at('digits')), { range: 'bytes=10-' })).status, 416)
    assert.equal((await agent.fetch('GET', url(at('digits')), { range: 'lines=1' })).status, 200)
    writeFileSync(at('hollow'), '')
    const empty = await agent.fetch('GET', url(at('hollow')), { range: 'bytes=0-99' })
    assert.deepEqual([empty.status, empty.headers['content-length']], [200, '0'])
  })

  test('a file that has not changed since the given date is not sent again', async () => {
    writeFileSync(at('old'), 'x')
    const { headers } = await agent.fetch('GET', url(at('old')))
    const again = await agent.fetch('GET', url(at('old')), { 'if-modified-since': headers['last-modified']! })
    assert.equal(again.status, 304)
  })

  test('a range of a file that has changed since is answered with the whole file', async () => {
    writeFileSync(at('parts'), '0123456789')
    const whole = await agent.fetch('GET', url(at('parts')))
    const rangeOf = (since: string) =>
      agent.fetch('GET', url(at('parts')), { range: 'bytes=0-1', 'if-range': since })
    assert.equal((await rangeOf(whole.headers['last-modified']!)).status, 206)
    assert.equal((await rangeOf('Thu, 01 Jan 1970 00:00:00 GMT')).status, 200)
  })

  test('HEAD returns the same headers and no body', async () => {
    writeFileSync(at('head.txt'), 'hello')
    const answer = await agent.fetch('HEAD', url(at('head.txt')))
    assert.deepEqual([answer.status, answer.headers['content-length'], answer.body.length], [200, '5', 0])
    assert.equal((await agent.fetch('HEAD', url('/proc/self/status'))).status, 200)
    assert.equal((await agent.fetch('HEAD', url(at('nothing')))).status, 404)
    assert.equal((await agent.fetch('HEAD', url(at('head.txt')), { 'x-access-token': 'wrong' })).status, 401)
  })

  test('a client that accepts neither gzip nor plain bytes gets 406', async () => {
    for (const accepted of ['br;q=0, identity;q=0', 'identity;q=0', '*;q=0', 'identity;q=0, br']) {
      const answer = await agent.fetch('GET', url(at('head.txt')), { 'accept-encoding': accepted })
      assert.deepEqual([answer.status, answer.json.code], [406, 406], accepted)
    }
  })

  test('gzip is sent to a client that accepts nothing else', async () => {
    writeFileSync(at('text'), 'x'.repeat(10_000))
    const zipped = await agent.fetch('GET', url(at('text')), { 'accept-encoding': 'gzip' })
    assert.equal(zipped.headers['content-encoding'], 'gzip')
    assert.equal(gunzipSync(zipped.body).length, 10_000)
    const encodingFor = async (accepted: string) =>
      (await agent.fetch('GET', url(at('text')), { 'accept-encoding': accepted })).headers['content-encoding']
    for (const accepted of ['GZIP;q=1.0, identity;q=0.5', 'identity;q=0, *', 'gzip, *;q=0', 'br;q=0,gzip'])
      assert.equal(await encodingFor(accepted), 'gzip', accepted)
    const others = ['gzip, deflate', 'identity, gzip;q=0.1', 'gzip;q=0', '*', 'br', 'identity', 'x-gzip;q=x']
    for (const accepted of others) assert.equal(await encodingFor(accepted), undefined, accepted)
  })
})

suite('writing', () => {
  test('a form with one file answers with exactly its name, path and type', async () => {
    const answer = await agent.fetch(
      'POST',
      url(at('new/deep/b.txt')),
      formType,
      form([{ filename: 'other', body: 'text' }]),
    )
    assert.equal(answer.status, 200)
    assert.deepEqual(answer.json, [{ name: 'b.txt', path: at('new/deep/b.txt'), type: 'file' }])
    assert.equal(readFileSync(at('new/deep/b.txt'), 'utf8'), 'text')
  })

  test('several files go where their names say, in order', async () => {
    const body = form([
      { filename: at('one'), body: '1' },
      { name: 'note', body: 'ignored' },
      { filename: 'in-home-of-nobody', body: '' },
      { filename: at('tw\\"o'), body: Buffer.from([0, 13, 10, 45, 45, 88, 255]) },
    ])
    const answer = await agent.fetch('POST', '/files?username=root', formType, body)
    const paths = (answer.json as unknown as { path: string }[]).map((file) => file.path)
    assert.deepEqual(paths, [at('one'), '/root/in-home-of-nobody', at('tw"o')])
    assert.deepEqual([...readFileSync(at('tw"o'))], [0, 13, 10, 45, 45, 88, 255])
    await agent.unary('filesystem.Filesystem/Remove', { path: '/root/in-home-of-nobody' })
  })

  test('a bare body needs a path', async () => {
    assert.equal((await agent.fetch('POST', url(at('raw')), octets, 'bytes')).status, 200)
    assert.equal(readFileSync(at('raw'), 'utf8'), 'bytes')
    assert.equal((await agent.fetch('POST', '/files', octets, 'bytes')).status, 400)
  })

  test('a chunked body is written as it comes, a gzip one unpacked', async () => {
    async function* chunks() {
      for (let i = 0; i < 100; i++) yield Buffer.alloc(50_000, i)
    }
    await agent.fetch('POST', url(at('chunked')), octets, chunks())
    assert.equal(statSync(at('chunked')).size, 5_000_000)
    const zipped = { ...octets, 'content-encoding': 'gzip' }
    await agent.fetch('POST', url(at('zipped')), zipped, gzipSync('plain'))
    assert.equal(readFileSync(at('zipped'), 'utf8'), 'plain')
    assert.equal((await agent.fetch('POST', url(at('broken')), zipped, 'no gzip')).status, 400)
    assert.equal(existsSync(at('broken')), false)
  })

  test('a new file is 0644 and the user’s, as are the folders made for it', async () => {
    await agent.fetch('POST', url(at('nobodys/file'), '&username=nobody'), octets, 'x')
    const nobody = statSync(at('nobodys')).uid
    assert.notEqual(nobody, 0)
    assert.equal(statSync(at('nobodys/file')).uid, nobody)
    assert.equal(statSync(at('nobodys/file')).mode & 0o7777, 0o644)
    assert.equal(statSync(at('nobodys')).mode & 0o7777, 0o755)
  })

  test('an overwrite keeps owner, mode, links and other names', async () => {
    writeFileSync(at('kept'), 'old')
    chmodSync(at('kept'), 0o750)
    chownSync(at('kept'), 65_534, 65_534)
    symlinkSync('kept', at('link'))
    await agent.fetch('POST', url(at('link')), octets, 'new')
    assert.equal(readFileSync(at('kept'), 'utf8'), 'new')
    assert.deepEqual([statSync(at('kept')).mode & 0o7777, statSync(at('kept')).uid], [0o750, 65_534])
    linkSync(at('kept'), at('second-name'))
    await agent.fetch('POST', url(at('kept')), octets, 'newer')
    assert.equal(readFileSync(at('second-name'), 'utf8'), 'newer')
  })

  test('an upload to a file with several names writes nothing to a link or a pipe that takes one of the names meanwhile', async () => {
    const [name, elsewhere] = [at('several/file'), at('elsewhere')]
    const replacements = [() => symlinkSync(elsewhere, name), () => execFileSync('mkfifo', [name])]
    writeFileSync(elsewhere, 'kept')
    for (const replace of replacements) {
      mkdirSync(at('several'))
      writeFileSync(name, 'old')
      linkSync(name, at('several/too'))
      const headers = { ...octets, 'x-access-token': token }
      const upload = request({ port: agent.port, method: 'POST', path: url(name), headers })
      upload.write('ne')
      while (readdirSync(at('several')).length < 3) await new Promise((resolve) => setImmediate(resolve))
      rmSync(name)
      replace()
      upload.end('w')
      const [answer] = (await once(upload, 'response')) as [IncomingMessage]
      assert.equal(answer.statusCode, 409)
      assert.match(`${await answer.toArray()}`, /something else took the name of the file/)
      assert.deepEqual(readdirSync(at('several')), ['file', 'too'])
      assert.equal(readFileSync(elsewhere, 'utf8'), 'kept')
      rmSync(at('several'), { recursive: true })
    }
  })

  test('an upload is written through a link whose target is missing, and rejected for a circle of links', async () => {
    symlinkSync('later', at('dangling'))
    await agent.fetch('POST', url(at('dangling')), octets, 'x')
    assert.equal(readFileSync(at('later'), 'utf8'), 'x')
    symlinkSync('circle', at('circle'))
    assert.equal((await agent.fetch('POST', url(at('circle')), octets, 'x')).status, 400)
  })

  test('a folder as target, the same path twice and a form without files are rejected', async () => {
    assert.equal((await agent.fetch('POST', url(agent.folder), octets, 'x')).status, 400)
    const twice = form([
      { filename: at('dup'), body: '1' },
      { filename: at('dup'), body: '2' },
    ])
    assert.equal((await agent.fetch('POST', '/files', formType, twice)).status, 400)
    assert.equal((await agent.fetch('POST', '/files', formType, form([]))).status, 400)
    assert.equal((await agent.fetch('POST', url(at('x')), { 'content-type': 'text/plain' }, 'x')).status, 400)
  })

  test('a full disk is 507, the old file stays and nothing is left beside it', async () => {
    await withSmallDisk('full', async () => {
      const large = Buffer.alloc(2 * 1024 * 1024)
      writeFileSync(at('full/old'), 'old')
      for (const name of ['old', 'new']) {
        const answer = await agent.fetch('POST', url(at(`full/${name}`)), octets, large)
        assert.deepEqual(answer.json, { code: 507, message: 'not enough disk space available' })
      }
      const packed = gzipSync(Buffer.alloc(64 * 1024 * 1024))
      assert.ok(packed.length < 100 * 1024, 'it would fit as it is sent')
      const unpacked = { ...octets, 'content-encoding': 'gzip' }
      assert.equal((await agent.fetch('POST', url(at('full/packed')), unpacked, packed)).status, 507)
      assert.deepEqual(readdirSync(at('full')), ['old'])
      assert.equal(readFileSync(at('full/old'), 'utf8'), 'old')
    })
  })

  test('a file with several names keeps its bytes when the new ones do not fit', async () => {
    await withSmallDisk('linked', async () => {
      writeFileSync(at('linked/one'), 'old')
      linkSync(at('linked/one'), at('linked/two'))
      // The copy beside fits; beside it, the file itself does not.
      const answer = await agent.fetch('POST', url(at('linked/one')), octets, Buffer.alloc(700 * 1024))
      assert.equal(answer.status, 507)
      assert.equal(readFileSync(at('linked/two'), 'utf8'), 'old')
      assert.deepEqual(readdirSync(at('linked')).sort(), ['one', 'two'])
    })
  })

  test('pipes, sockets and devices are rejected at once', async () => {
    execFileSync('mkfifo', [at('pipe')])
    for (const path of [at('pipe'), '/dev/null', '/dev/zero']) {
      const answer = await agent.fetch('POST', url(path), octets, 'x')
      assert.deepEqual(answer.json, { code: 400, message: `path '${path}' is not a regular file` })
    }
    assert.equal((await agent.fetch('GET', url(at('pipe')))).status, 400)
  })

  test('after a rejection amid a large body the connection serves the next request', async () => {
    const large = Buffer.alloc(4 * 1024 * 1024)
    const bodies: [Record<string, string>, Buffer][] = [
      [octets, large],
      [formType, form([{ filename: agent.folder, body: large }])],
      [
        formType,
        form([
          { filename: at('fine'), body: 'x' },
          { filename: agent.folder, body: large },
        ]),
      ],
      [{ ...octets, 'content-encoding': 'gzip' }, large],
      [{ 'content-type': 'text/plain' }, large],
    ]
    const connection = new HttpAgent({ keepAlive: true, maxSockets: 1 })
    const send = (path: string, headers: Record<string, string>, body: Buffer) =>
      new Promise<number>((resolve, reject) => {
        const options = { port: agent.port, method: 'POST', path, agent: connection }
        request({ ...options, headers: { ...headers, 'x-access-token': token } }, (response) => {
          response.resume().once('end', () => resolve(response.statusCode!))
        })
          .on('error', reject)
          .end(body)
      })
    for (const [headers, body] of bodies) {
      const path = body === large && headers === octets ? url(agent.folder) : '/files'
      assert.equal(await send(path, headers, body), 400)
      assert.equal(await send(url(at('after')), octets, Buffer.from('x')), 200)
    }
    connection.destroy()
  })

  test('a body cut in half leaves the old file and nothing beside it', async () => {
    mkdirSync(at('cut'))
    writeFileSync(at('cut/file'), 'old')
    const socket = connect(agent.port, '127.0.0.1')
    socket.write(
      `POST ${url(at('cut/file'))} HTTP/1.1\r\nHost: x\r\nX-Access-Token: ${token}\r\n` +
        'Content-Type: application/octet-stream\r\nContent-Length: 1000\r\n\r\nhalf',
    )
    while (readdirSync(at('cut')).length < 2) await new Promise((resolve) => setImmediate(resolve))
    socket.destroy()
    while (readdirSync(at('cut')).length > 1) await new Promise((resolve) => setImmediate(resolve))
    assert.equal(readFileSync(at('cut/file'), 'utf8'), 'old')
  })
})

suite('signed URLs', () => {
  const sign = (path: string, operation: string, expiration?: number, user = 'root') => {
    const text = [path, operation, user, token, ...(expiration === undefined ? [] : [expiration])].join(':')
    const signature = `v1_${createHash('sha256').update(text).digest('base64').replace(/=+$/, '')}`
    const expires = expiration === undefined ? '' : `&signature_expiration=${expiration}`
    return url(path, `&username=${user}&signature=${encodeURIComponent(signature)}${expires}`)
  }
  const bare = async (method: string, path: string) => {
    const response = await agent.open(
      method,
      path,
      method === 'POST' ? octets : {},
      method === 'POST' ? 'signed' : undefined,
    )
    const chunks: Buffer[] = []
    for await (const chunk of response) chunks.push(chunk)
    return { status: response.statusCode, text: Buffer.concat(chunks).toString() }
  }
  const inAnHour = Math.floor(Date.now() / 1000) + 3600

  test('allow one write and read, until they expire', async () => {
    assert.equal((await bare('POST', sign(at('signed'), 'write', inAnHour))).status, 200)
    assert.deepEqual(await bare('GET', sign(at('signed'), 'read')), { status: 200, text: 'signed' })
    const expired = await bare('GET', sign(at('signed'), 'read', 1000))
    assert.equal(expired.status, 401)
    assert.deepEqual(JSON.parse(expired.text), { code: 401, message: 'signature is already expired' })
  })

  test('are valid for their path, operation and user only', async () => {
    for (const path of [
      sign(at('signed'), 'write'),
      sign(at('signed'), 'read').replace('username=root', 'username=nobody'),
      sign(at('signed'), 'read').replace('signed&', 'a.txt&'),
      sign(at('signed'), 'read', inAnHour).replace(String(inAnHour), String(inAnHour + 1)),
    ]) {
      const answer = await bare('GET', path)
      assert.deepEqual([answer.status, JSON.parse(answer.text).message], [401, 'invalid signature'], path)
    }
  })

  test('a missing signature and a wrong token get different errors', async () => {
    assert.match((await bare('GET', url(at('signed')))).text, /missing signature query parameter/)
    const wrong = await agent.fetch('GET', sign(at('signed'), 'read'), { 'x-access-token': 'wrong' })
    assert.equal(wrong.json.message, 'access token present in header but does not match')
  })
})
