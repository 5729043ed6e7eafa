import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, test } from 'node:test'
import { createChallengeDoor } from './challenge-door.ts'

const waiting: (() => void)[] = []
const door = createChallengeDoor({
  domain: 'box.example:8443',
  async readAnswer(token) {
    if (token === 'slow') await new Promise<void>((resolve) => waiting.push(resolve))
    if (token === 'broken') throw new Error('the database is gone')
    return token === 'known' ? 'known.thumbprint' : undefined
  },
})
door.listen(0, '127.0.0.1')
await once(door, 'listening')
after(() => void door.close())

type Answer = { status: number; location: string | undefined; text: string }

function ask(path: string, host = 'api.box.example', method = 'GET'): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const { port } = door.address() as AddressInfo
    const asked = request({ host: '127.0.0.1', port, path, method, headers: { host } }, (response) => {
      let text = ''
      response.on('data', (chunk) => {
        text += chunk
      })
      response.on('end', () => {
        resolve({ status: response.statusCode!, location: response.headers.location, text })
      })
    })
    asked.on('error', reject).end()
  })
}

test('answers the challenge of an order, and no other', async () => {
  const challenge = '/.well-known/acme-challenge/'
  assert.deepEqual(await ask(`${challenge}known`), {
    status: 200,
    location: undefined,
    text: 'known.thumbprint',
  })
  assert.equal((await ask(`${challenge}other`)).status, 404)
  assert.equal((await ask(`${challenge}broken`)).status, 503)
})

test('leads names of the domain to https, and strangers nowhere', async () => {
  const { status, location } = await ask('/dashboard?a=1', 'API.box.example:80')
  assert.deepEqual([status, location], [308, 'https://api.box.example:8443/dashboard?a=1'])
  for (const host of ['evil.example', 'notbox.example', 'box.example.evil', 'a@box.example']) {
    const answer = await ask('/', host)
    assert.deepEqual([answer.status, answer.location], [404, undefined], host)
  }
  assert.equal((await ask('http://evil.example/')).location, 'https://api.box.example:8443/')
  assert.equal((await ask('/', 'box.example', 'POST')).status, 405)
})

test('asks the database for no more than twenty tokens at once', async () => {
  const slow = Array.from({ length: 20 }, () => ask('/.well-known/acme-challenge/slow'))
  while (waiting.length < 20) await new Promise((resolve) => setImmediate(resolve))
  assert.equal((await ask('/.well-known/acme-challenge/known')).status, 503)
  for (const go of waiting.splice(0)) go()
  for (const answer of await Promise.all(slow)) assert.equal(answer.status, 404)
  assert.equal((await ask('/.well-known/acme-challenge/known')).status, 200)
})
