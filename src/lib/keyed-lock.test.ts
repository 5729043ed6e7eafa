import assert from 'node:assert/strict'
import { it } from 'node:test'
import { JoinedWork, KeyedLock } from './keyed-lock.ts'

it('work for one key runs one after another, for different keys at once, and a failure blocks nobody', async () => {
  const lock = new KeyedLock()
  const events: string[] = []
  const work = (name: string) => async () => {
    events.push(`${name} begins`)
    await new Promise((resolve) => setImmediate(resolve))
    events.push(`${name} ends`)
    if (name === 'first') throw new Error('first fails')
  }
  const first = assert.rejects(lock.run('a', work('first')))
  const second = lock.run('a', work('second'))
  const other = lock.run('b', work('other'))
  await Promise.all([first, second, other])
  assert.ok(events.indexOf('first ends') < events.indexOf('second begins'))
  assert.ok(events.indexOf('other begins') < events.indexOf('first ends'))
})

it('callers for the same key share one promise until it is done', async () => {
  const joined = new JoinedWork<number>()
  let runs = 0
  const work = async () => ++runs
  const both = await Promise.all([joined.run('a', work), joined.run('a', work)])
  assert.deepEqual(both, [1, 1])
  assert.equal(await joined.run('a', work), 2)
  await assert.rejects(joined.run('b', async () => Promise.reject(new Error('no'))))
  assert.equal(joined.get('b'), undefined)
})
