import assert from 'node:assert/strict'
import { test } from 'node:test'
import { methodNames, type Tracer, traced } from './tracer.ts'

class Machine {
  readonly name = 'machine'
  #starts = 0

  async start(id: string): Promise<string> {
    return `${id}-${++this.#starts}`
  }

  async fail(): Promise<void> {
    throw new Error('broken')
  }

  starts(): number {
    return this.#starts
  }
}

function recorder() {
  const seen: unknown[] = []
  const tracer: Tracer = {
    trace(operation, attributes, work) {
      seen.push([operation, attributes])
      return work()
    },
  }
  return { seen, tracer }
}

test('a traced object behaves as before, and its named methods are traced', async () => {
  const { seen, tracer } = recorder()
  const machine = traced(new Machine(), 'machine', tracer, ['start', 'fail'], (id?: string) => ({
    id: id ?? '',
  }))
  assert.equal(await machine.start('a'), 'a-1')
  await assert.rejects(machine.fail(), /broken/)
  assert.equal(machine.starts(), 1)
  assert.equal(machine.name, 'machine')
  assert.deepEqual(seen, [
    ['machine.start', { id: 'a' }],
    ['machine.fail', { id: '' }],
  ])
})

test('a method that the object lacks is skipped', () => {
  const { tracer } = recorder()
  const some: { start?: () => Promise<void> } = {}
  assert.equal(traced(some, 'some', tracer, ['start']).start, undefined)
})

test('the methods of a class are found, without its constructor', () => {
  assert.deepEqual(methodNames(new Machine()), ['start', 'fail', 'starts'])
})
