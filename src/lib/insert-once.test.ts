import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { turning } from '../../test/support/domain.ts'
import { AppError } from './app-error.ts'
import { ManualClock } from './clock.ts'
import { insertOnce } from './insert-once.ts'

const lost = () => new AppError('unavailable', 'The database cannot be reached; try again.')
const nameExists = () => new AppError('already_exists', 'The name is taken.')

/** Inserts with a script for each try: what happens in the table, and what the caller gets. */
function insertBy(...tries: { inserts?: boolean; ends: boolean | Error }[]) {
  const clock = new ManualClock()
  let isThere = false
  let count = 0
  const ended = turning(
    clock,
    insertOnce(clock, {
      insert: async () => {
        const { inserts = false, ends } = tries[count++]!
        isThere ||= inserts
        if (ends instanceof Error) throw ends
        return ends
      },
      isThere: async () => isThere,
    }),
  )
  return { ended, count: () => count }
}

describe('an insert', () => {
  it('is made once when its answer is lost', async () => {
    const { ended, count } = insertBy({ inserts: true, ends: lost() })
    assert.deepEqual([await ended, count()], [true, 1])
  })

  it('is made again if it did not take effect', async () => {
    assert.equal(await insertBy({ ends: lost() }, { inserts: true, ends: true }).ended, true)
    assert.equal(await insertBy({ ends: lost() }, { ends: false }).ended, false)
  })

  it('succeeds if an earlier try takes effect during a later one', async () => {
    assert.equal(await insertBy({ ends: lost() }, { inserts: true, ends: nameExists() }).ended, true)
    assert.equal(await insertBy({ ends: lost() }, { inserts: true, ends: false }).ended, true)
  })

  it('is rejected if somebody else has the name', async () => {
    await assert.rejects(insertBy({ ends: nameExists() }).ended, /The name is taken/)
    await assert.rejects(insertBy({ ends: lost() }, { ends: nameExists() }).ended, /The name is taken/)
  })

  it('is unknown if no answer comes', async () => {
    await assert.rejects(insertBy(...Array(5).fill({ ends: lost() })).ended, /cannot be reached/)
  })
})
