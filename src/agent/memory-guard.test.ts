import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { everybody, MemoryGuard, type SandboxMachine } from './memory-guard.ts'

const mebibyte = 1024 * 1024

function machine(totalMB: number, usedMB: number, sizesMB: Record<number, number>, holdsGpuMemory = false) {
  const killed: number[] = []
  const it: SandboxMachine = {
    cpuCount: 1,
    memory: () => ({ totalBytes: totalMB * mebibyte, usedBytes: usedMB * mebibyte }),
    holdsGpuMemory: () => holdsGpuMemory,
    pids: () => Object.keys(sizesMB).map(Number),
    residentBytes: (pid) => sizesMB[pid]! * mebibyte + (pid === 10 ? 150 * mebibyte : 0),
    ownBytes: (pid) => sizesMB[pid]! * mebibyte,
    kill: (pid) => killed.push(pid),
  }
  return { it, killed }
}

suite('the memory guard', () => {
  // Process 10 maps a large file, which makes it look larger than it is.
  test('ends the process that holds most when memory is nearly used up, and looks again soon', () => {
    const { it, killed } = machine(256, 250, { 10: 55, 11: 120, 12: 40 })
    assert.equal(new MemoryGuard({ machine: it }).look(), 10)
    assert.deepEqual(killed, [11])
  })

  test('ends as many as it takes when several grow', () => {
    const { it, killed } = machine(256, 270, { 11: 30, 12: 31, 13: 32, 14: 33, 15: 1 })
    new MemoryGuard({ machine: it }).look()
    assert.deepEqual(killed, [14, 13, 12])
  })

  test('ends all at once when the host is about to end the sandbox', () => {
    const { it, killed } = machine(256, 330, { 11: 100, 12: 100, 13: 100 })
    assert.equal(new MemoryGuard({ machine: it }).look(), 10)
    assert.deepEqual(killed, [everybody])
  })

  test('ends nothing while GPU memory passes through the memory of the sandbox, and looks again soon', () => {
    for (const usedMB of [250, 330]) {
      const { it, killed } = machine(256, usedMB, { 11: 200 }, true)
      assert.equal(new MemoryGuard({ machine: it }).look(), 100)
      assert.deepEqual(killed, [], `${usedMB} MiB`)
    }
  })

  test('waits for the memory of an ended process before it ends another', () => {
    const { it, killed } = machine(256, 250, { 11: 120, 12: 40 })
    const guard = new MemoryGuard({ machine: it })
    guard.look()
    guard.look()
    assert.deepEqual(killed, [11])
    for (let looks = 0; looks < 10; looks++) guard.look()
    assert.notDeepEqual(killed, [11])
  })

  test('ends no process while there is memory headroom', () => {
    const { it, killed } = machine(256, 200, { 10: 190 })
    assert.notEqual(new MemoryGuard({ machine: it }).look(), undefined)
    assert.deepEqual(killed, [])
  })

  test('looks sooner, the less memory headroom there is', () => {
    const pauses = [100, 800, 1500, 1990].map(
      (used) => new MemoryGuard({ machine: machine(2048, used, { 10: 1 }).it }).look()!,
    )
    assert.deepEqual(
      pauses,
      [...pauses].sort((a, b) => b - a),
    )
    assert.ok(pauses[0]! <= 500 && pauses[3]! >= 10)
  })

  test('rests when no process is left', () => {
    assert.equal(new MemoryGuard({ machine: machine(2048, 20, {}).it }).look(), undefined)
  })

  test('looks even while processes are started all the time', (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const { it, killed } = machine(256, 250, { 11: 120 })
    const guard = new MemoryGuard({ machine: it })
    for (let ms = 0; ms < 20; ms += 5) {
      guard.watch()
      t.mock.timers.tick(5)
    }
    assert.deepEqual(killed, [11])
  })

  test('looks when a tenth of the memory can have been taken, then again, and rests when no process is left', (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const { it } = machine(2000, 20, {})
    let ms = 0
    let looks: number[] = []
    const guard = new MemoryGuard({
      machine: {
        ...it,
        memory: () => {
          looks.push(ms)
          return it.memory()
        },
      },
    })
    const looksAfterStart = () => {
      guard.watch()
      looks = []
      for (ms = 1; ms <= 1500; ms++) t.mock.timers.tick(1)
      return looks
    }
    // How much there is shows at the first look of all.
    assert.deepEqual(looksAfterStart(), [10, 510])
    assert.deepEqual(looksAfterStart(), [100, 600])
  })

  test('reports which processes it ended, and their memory', () => {
    const { it } = machine(256, 270, { 11: 30, 12: 31, 13: 32, 14: 33, 15: 1 })
    const reports: number[][] = []
    new MemoryGuard({ machine: it, onKill: (pid, bytes) => reports.push([pid, bytes / 1024 / 1024]) }).look()
    assert.deepEqual(reports, [
      [14, 33],
      [13, 32],
      [12, 31],
    ])
  })
})
