import assert from 'node:assert/strict'
import test from 'node:test'
import { createProgress, eachLine } from './progress.ts'

function fakeScreen(isTTY: boolean) {
  let text = ''
  return {
    isTTY,
    columns: 100,
    write: (more: string) => {
      text += more
    },
    read: () => text,
  }
}

test('without a terminal a step prints plain lines, at most one in five seconds', async () => {
  const screen = fakeScreen(false)
  let now = 0
  await createProgress(screen, () => now).step('Make it', async (advance) => {
    advance(0.1, 'first')
    now = 6000
    advance(0.5, 'second')
    now = 7000
    advance(0.9, 'third')
  })
  assert.equal(screen.read(), 'Make it …\n  50 % second\nMake it: done in 7.0 s\n')
})

test('on a terminal a step is one line that is redrawn and never goes back', async () => {
  const screen = fakeScreen(true)
  let now = 0
  await createProgress(screen, () => now).step('Make it', async (advance) => {
    for (const share of [0.5, 0.25, 2]) {
      now += 1000
      advance(share)
    }
  })
  const drawn = [...screen.read().matchAll(/(\d+) %/g)].map((match) => Number(match[1]))
  assert.deepEqual(drawn, [0, 50, 50, 100])
  assert.equal(screen.read().split('\n').length, 2)
})

test('a failed step is reported, and its error is thrown', async () => {
  const screen = fakeScreen(false)
  const failing = createProgress(screen, () => 0).step('Make it', async () => {
    throw new Error('no')
  })
  await assert.rejects(failing, /no/)
  assert.match(screen.read(), /Make it: failed/)
})

test('lines are found across chunks', () => {
  const seen: string[] = []
  const feed = eachLine((line) => seen.push(line))
  feed(Buffer.from('on'))
  feed(Buffer.from('e\ntwo\r\nthr'))
  assert.deepEqual(seen, ['one', 'two'])
})
