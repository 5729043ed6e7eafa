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

test('steps that run at once have a line each, on a terminal and elsewhere', async () => {
  for (const isTTY of [true, false]) {
    const screen = fakeScreen(isTTY)
    let now = 0
    const progress = createProgress(screen, () => now)
    const ends: (() => void)[] = []
    const advances: ((share: number) => void)[] = []
    const steps = ['Build one', 'Make two'].map((title) =>
      progress.step(title, (advance) => {
        advances.push(advance)
        return new Promise<void>((resolve) => ends.push(resolve))
      }),
    )
    now = 6000
    advances[0]!(0.25)
    advances[1]!(0.5)
    progress.note('something else')
    ends[1]!()
    await steps[1]
    ends[0]!()
    await steps[0]
    const text = screen.read()
    if (isTTY) {
      const rows = rowsOf(text)
      assert.deepEqual(rows, ['something else', 'Make two: done in 6.0 s', 'Build one: done in 6.0 s', ''])
    } else {
      assert.match(text, /Build one: 25 %\n {2}Make two: 50 %\nsomething else\nMake two: done/)
    }
  }
})

/** What a terminal shows in the end: it knows the three controls that are used. */
function rowsOf(text: string): string[] {
  const rows = ['']
  let row = 0
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a terminal's controls are what this reads.
  for (const [part] of text.matchAll(/\x1b\[(\d*)[AJ]|[\r\n]|[^\x1b\r\n]+/g)) {
    if (part.endsWith('A') && part.startsWith('\x1b')) row -= Number(part.slice(2, -1))
    else if (part === '\x1b[J') rows.splice(row, rows.length, '')
    else if (part === '\n') rows[++row] ??= ''
    else if (part !== '\r') rows[row] += part
  }
  return rows
}

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
