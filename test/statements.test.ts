/** How many statements and commits the verbs of a sandbox take: each commit waits for the disk. */
import assert from 'node:assert/strict'
import { StatementSync } from 'node:sqlite'
import { mock, test } from 'node:test'
import { openApi } from './support/api.ts'

test('a create takes two commits, a kill two, and a list none', async () => {
  await using world = await openApi()
  const texts = recordStatements()
  try {
    // The first use of a key is recorded, too.
    await world.create()
    const create = await texts(() => world.create())
    // One of each verb is the line of the audit, in the first transaction.
    assert.deepEqual(countsOf(create.texts), { statements: 16, commits: 2 })
    const kill = await texts(() => world.ask('DELETE', `/sandboxes/${create.result}`))
    assert.deepEqual(countsOf(kill.texts), { statements: 11, commits: 2 })
    const list = await texts(() => world.ask('GET', '/v2/sandboxes'))
    assert.equal(countsOf(list.texts).commits, 0)
  } finally {
    mock.restoreAll()
  }
})

function recordStatements() {
  const all: string[] = []
  for (const method of ['run', 'all'] as const) {
    const original = StatementSync.prototype[method] as (...values: never[]) => unknown
    mock.method(StatementSync.prototype, method, function (this: StatementSync, ...values: never[]) {
      all.push(this.sourceSQL)
      return original.apply(this, values)
    })
  }
  return async <T>(work: () => Promise<T>): Promise<{ result: T; texts: string[] }> => {
    const first = all.length
    return { result: await work(), texts: all.slice(first) }
  }
}

/** What writes by itself is a commit; what writes between `begin` and `commit` is not. */
function countsOf(texts: string[]): { statements: number; commits: number } {
  let isOpen = false
  let commits = 0
  for (const text of texts) {
    if (/^begin/.test(text)) isOpen = true
    else if (text === 'commit') isOpen = false
    if (text === 'commit' || (!isOpen && /^(insert|update|delete)/.test(text))) commits++
  }
  return { statements: texts.length, commits }
}
