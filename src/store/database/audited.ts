/**
 * Writes the line of a change into the transaction that writes the change's first row, so that neither exists without the other.
 * It works below Kysely, because no store may forget it: whoever writes on behalf of a change is seen here.
 */
import {
  CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  DummyDriver,
  Kysely,
  type QueryResult,
} from 'kysely'
import type { PendingChange } from '../../core/audit/audit-line.ts'
import { currentChange } from '../../core/audit/current-change.ts'
import { auditRow } from './audit-row.ts'
import type { Tables } from './tables.ts'

export function audited(dialect: Dialect): Dialect {
  const writer = new Kysely<Tables>({
    dialect: {
      createAdapter: () => dialect.createAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (db) => dialect.createIntrospector(db),
      createQueryCompiler: () => dialect.createQueryCompiler(),
    },
  })
  const insertOf = ({ line }: PendingChange) =>
    writer
      .insertInto('audit_lines')
      .values(auditRow(line))
      .onConflict((conflict) => conflict.column('id').doNothing())
      .compile()
  return {
    createAdapter: () => dialect.createAdapter(),
    createIntrospector: (db) => dialect.createIntrospector(db),
    createQueryCompiler: () => dialect.createQueryCompiler(),
    createDriver: () => watching(dialect.createDriver(), insertOf),
  }
}

type InsertOf = (change: PendingChange) => CompiledQuery

function watching(driver: Driver, insertOf: InsertOf): Driver {
  const watched = new WeakSet<DatabaseConnection>()
  const acquire = driver.acquireConnection.bind(driver)
  driver.acquireConnection = async () => {
    const connection = await acquire()
    if (!watched.has(connection)) watch(connection, insertOf)
    watched.add(connection)
    return connection
  }
  return driver
}

const begins = /^(begin|start transaction)/
const begin = CompiledQuery.raw('begin')
const commit = CompiledQuery.raw('commit')
const rollback = CompiledQuery.raw('rollback')

function watch(connection: DatabaseConnection, insertOf: InsertOf): void {
  const execute = connection.executeQuery.bind(connection) as Execute
  let isOpen = false
  /** The change whose line is in the open transaction. */
  let claimed: PendingChange | undefined
  const settle = (state: 'written' | 'open') => {
    if (claimed?.state === 'claimed') claimed.state = state
    claimed = undefined
  }
  const executeWatched: Execute = async (query) => {
    const text = query.sql
    if (begins.test(text)) {
      isOpen = true
      claimed = undefined
      return execute(query)
    }
    if (text === 'commit' || text === 'rollback') {
      isOpen = false
      // An outcome that is unknown counts as none: the line that is written after the answer may find this one.
      if (text === 'rollback') settle('open')
      const result = await execute(query).catch((error) => {
        settle('open')
        throw error
      })
      settle('written')
      return result
    }
    const change = isWrite(query) ? currentChange() : undefined
    if (change?.state !== 'open') return execute(query)
    change.state = 'claimed'
    if (!isOpen) return writeAlone(execute, change, insertOf(change), query)
    claimed = change
    return both(execute, insertOf(change), query)
  }
  connection.executeQuery = executeWatched as DatabaseConnection['executeQuery']
}

type Execute = (query: CompiledQuery) => Promise<QueryResult<unknown>>

/** Sends both at once; if the first fails, so does the transaction. */
async function both(execute: Execute, insert: CompiledQuery, query: CompiledQuery) {
  const [, result] = await Promise.all([execute(insert), execute(query)])
  return result
}

/** Gives a statement that is a transaction of its own the line beside it. */
async function writeAlone(
  execute: Execute,
  change: PendingChange,
  insert: CompiledQuery,
  query: CompiledQuery,
) {
  try {
    await execute(begin)
    const result = await both(execute, insert, query)
    await execute(commit)
    change.state = 'written'
    return result
  } catch (error) {
    change.state = 'open'
    await execute(rollback).catch(() => {})
    throw error
  }
}

function isWrite({ query, sql }: CompiledQuery): boolean {
  const { kind } = query
  if (kind === 'RawNode') return /^\s*(insert|update|delete|with)\b/i.test(sql)
  return kind === 'InsertQueryNode' || kind === 'UpdateQueryNode' || kind === 'DeleteQueryNode'
}
