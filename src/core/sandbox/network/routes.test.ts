import assert from 'node:assert/strict'
import { it } from 'node:test'
import { type Route, RouteTable } from './routes.ts'

const route = (runID: string): Route => ({
  sandboxID: 'ia',
  runID,
  teamID: 'team',
  start: `start of ${runID}`,
  agentToken: 't',
  trafficToken: null,
  endpoint: (port) => ({ host: 'h', port }),
})

it('a route is added and removed once per run, however often it is set', () => {
  const routes = new RouteTable()
  const seen: string[] = []
  routes.onAdd(({ runID }) => void seen.push(`+${runID}`))
  routes.onRemove(({ runID }) => void seen.push(`-${runID}`))
  routes.set(route('1'))
  routes.set(route('1'))
  routes.set(route('2'))
  routes.remove('ia', '1')
  assert.equal(routes.get('ia')?.runID, '2')
  routes.remove('ia', '2')
  routes.remove('ia', '2')
  assert.deepEqual(seen, ['+1', '-1', '+2', '-2'])
})

it('a route is found by the token of its agent as long as it is there', () => {
  const routes = new RouteTable()
  routes.set(route('1'))
  routes.set({ ...route('1'), sandboxID: 'ib', agentToken: 'u' })
  assert.equal(routes.ofToken('t')?.sandboxID, 'ia')
  assert.equal(routes.ofToken('u')?.sandboxID, 'ib')
  assert.equal(routes.ofToken('v'), undefined)
  routes.set(route('2'))
  assert.equal(routes.ofToken('t')?.runID, '2')
  routes.set({ ...route('2'), agentToken: 'w' })
  assert.equal(routes.ofToken('t'), undefined)
  assert.equal(routes.ofToken('w')?.runID, '2')
  routes.remove('ia', '2')
  assert.equal(routes.ofToken('w'), undefined)
  assert.equal(routes.ofToken('u')?.sandboxID, 'ib')
})

it('the route to a start that has ended is removed, whatever its run, and no route to a later start', () => {
  const routes = new RouteTable()
  routes.set({ ...route('resumed in place'), start: 'first' })
  routes.removeStart('ia', 'first')
  assert.equal(routes.get('ia'), undefined)
  routes.set({ ...route('2'), start: 'second' })
  routes.removeStart('ia', 'first')
  routes.removeStart('ib', 'second')
  assert.equal(routes.get('ia')?.runID, '2')
})

it('a run that is frozen is marked until it is thawed or its route is removed, and no other run is', () => {
  const routes = new RouteTable()
  routes.set(route('1'))
  routes.markFrozen('ia', '1', 'the disk is full')
  routes.set(route('1'))
  assert.equal(routes.whyFrozen(route('1')), 'the disk is full')
  assert.equal(routes.whyFrozen(route('2')), undefined)
  routes.letGo('ia', '2')
  assert.equal(routes.whyFrozen(route('1')), 'the disk is full')
  routes.letGo('ia', '1')
  assert.equal(routes.whyFrozen(route('1')), undefined)
  routes.markFrozen('ia', '1', 'the disk is full')
  routes.remove('ia', '1')
  routes.set(route('1'))
  assert.equal(routes.whyFrozen(route('1')), undefined)
})
