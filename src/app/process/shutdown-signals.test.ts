import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { it } from 'node:test'
import { ShutdownSignals } from './shutdown-signals.ts'

function signals() {
  const source = new EventEmitter()
  const seen = { exits: 0 }
  const stop = new ShutdownSignals(source, () => void seen.exits++)
  return { send: (name: string) => source.emit(name, name), seen, stop }
}

it('the first signal is told, and a second one while Warren closes ends it at once', async () => {
  const { send, seen, stop } = signals()
  const first = stop.next()
  send('SIGTERM')
  assert.equal(await first, 'SIGTERM')
  assert.equal(seen.exits, 0)
  send('SIGINT')
  assert.equal(seen.exits, 1)
})

it('a signal ends the wait for clients, and the next one Warren', async () => {
  const { send, seen, stop } = signals()
  const waited = stop.waitFor(new Promise(() => {}))
  send('SIGTERM')
  await waited
  assert.equal(seen.exits, 0)
  send('SIGTERM')
  assert.equal(seen.exits, 1)
})

it('after the wait for clients, a signal ends Warren at once', async () => {
  const { send, seen, stop } = signals()
  await stop.waitFor(Promise.resolve())
  send('SIGHUP')
  assert.equal(seen.exits, 1)
})
