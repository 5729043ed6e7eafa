import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { linesOf } from './output-lines.ts'

function listen() {
  const lines: string[] = []
  const output = linesOf((stream, line) => lines.push(`${stream}: ${line}`))
  return {
    lines,
    out: (data: string | Buffer) => output.add({ stream: 'stdout', data: Buffer.from(data) }),
    err: (data: string) => output.add({ stream: 'stderr', data: Buffer.from(data) }),
    end: () => output.end(),
  }
}

describe('lines of output', () => {
  it('are logged when they end, however they arrive', () => {
    const { lines, out } = listen()
    out('one\ntw')
    assert.deepEqual(lines, ['stdout: one'])
    out('o\r\n\nthree\n')
    assert.deepEqual(lines, ['stdout: one', 'stdout: two', 'stdout: ', 'stdout: three'])
  })

  it('are not mixed between stdout and stderr', () => {
    const { lines, out, err, end } = listen()
    out('a')
    err('b')
    out('c\n')
    end()
    assert.deepEqual(lines, ['stdout: ac', 'stderr: b'])
  })

  it('keep characters whole that came in two pieces', () => {
    const { lines, out } = listen()
    const bytes = Buffer.from('é€\n')
    for (const byte of bytes) out(Buffer.from([byte]))
    assert.deepEqual(lines, ['stdout: é€'])
  })

  it('are logged at the end, once, without a line break', () => {
    const { lines, out, end } = listen()
    out('last')
    end()
    end()
    assert.deepEqual(lines, ['stdout: last'])
  })

  it('are logged in pieces if they never end', () => {
    const { lines, out, end } = listen()
    out('x'.repeat(20_000))
    assert.deepEqual(
      lines.map((line) => line.length),
      [8200, 8200],
    )
    end()
    assert.equal(lines.map((line) => line.slice('stdout: '.length)).join(''), 'x'.repeat(20_000))
  })
})
