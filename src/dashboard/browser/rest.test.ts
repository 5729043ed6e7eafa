import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { type AskOptions, ask, brokenOff, RestFailure } from './rest.ts'

/** Answers of a server in their order; undefined: the connection breaks. */
function serve(
  t: TestContext,
  ...answers: (Response | undefined)[]
): { method: string; path: string; key?: string }[] {
  const seen: { method: string; path: string; key?: string }[] = []
  t.mock.method(globalThis, 'fetch', async (path: string, request: RequestInit = {}) => {
    const key = (request.headers as Record<string, string> | undefined)?.['idempotency-key']
    seen.push({ method: request.method ?? 'GET', path, ...(key !== undefined && { key }) })
    const answer = answers.shift()
    if (!answer) throw new TypeError('Failed to fetch')
    return answer
  })
  t.mock.method(globalThis, 'setTimeout', (then: () => void) => queueMicrotask(then))
  return seen
}
const json = (value: unknown, status = 200) => new Response(JSON.stringify(value), { status })
const broken = undefined

/** Breaks in the middle of the answer. */
const cutOff = () =>
  new Response(
    new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode('{"half'))
        controller.error(new TypeError('network error'))
      },
    }),
  )

describe('a request whose connection breaks', () => {
  it('is sent again if it reads, replaces or deletes, also after half of an answer', async (t) => {
    const options: AskOptions[] = [{}, { method: 'PUT', body: 1 }, { method: 'PATCH', body: 1 }]
    for (const one of options) {
      const seen = serve(t, broken, cutOff(), json('there'))
      assert.equal(await ask('/thing', one), 'there')
      assert.equal(seen.length, 3)
      t.mock.restoreAll()
    }
  })

  it('succeeds as a delete if the thing is already gone when it is sent again', async (t) => {
    serve(t, broken, json({ message: 'There is no such key.' }, 404))
    assert.equal(await ask('/api-keys/a', { method: 'DELETE' }), undefined)
    t.mock.restoreAll()
    serve(t, json({ message: 'There is no such key.' }, 404))
    await assert.rejects(
      ask('/api-keys/a', { method: 'DELETE' }),
      new RestFailure(404, 'There is no such key.'),
    )
  })

  it('creates one thing if it has an idempotency key, which stays the same', async (t) => {
    const seen = serve(t, broken, json({ sandboxID: 'a' }))
    assert.deepEqual(await ask('/v2/sandboxes', { body: {}, once: true }), { sandboxID: 'a' })
    assert.match(seen[0]!.key!, /^[0-9a-f]{32}$/)
    assert.equal(seen[0]!.key, seen[1]!.key)
  })

  it('is not sent again if that would repeat its effect: the page reads the current state and shows a message', async (t) => {
    const before = brokenOff.get()
    const seen = serve(t, broken, json('ok'))
    await assert.rejects(ask('/sandboxes/a/fork', { body: {} }), /may be done or not.*look at it/)
    assert.deepEqual(
      seen.map(({ path }) => path),
      ['/sandboxes/a/fork', '/health'],
    )
    assert.equal(brokenOff.get(), before + 1)
  })

  it('reports that Warren does not answer', async (t) => {
    serve(t)
    await assert.rejects(ask('/sandboxes/a/fork', { body: {} }), /Warren does not answer/)
    await assert.rejects(ask('/sandboxes/a'), /Warren does not answer/)
  })
})
