/** Kysely over node:sqlite: one file, one connection, every commit on disk before it is answered. */
import { chmodSync, closeSync, mkdirSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import {
  CompiledQuery,
  type DatabaseConnection,
  SqliteAdapter,
  type SqliteDatabase,
  SqliteDialect,
  SqliteDriver,
  type SqliteStatement,
} from 'kysely'
import { AppError, errorText, isAppError } from '../lib/app-error.ts'
import { checkBinding } from './bindings.ts'

const busyTimeoutMs = 5000
/** Queries with lists of any length make ever new statements, so the cache is bounded. */
const mostStatements = 200

export function sqliteDialect(file: string): SqliteDialect {
  return dialectOver(openDatabase(file), file)
}

/** Over a database that is open already, for example one in memory; `file` is its name in messages. */
export function dialectOver(database: DatabaseSync, file: string): SqliteDialect {
  return new DurableSqliteDialect(file, database)
}

function openDatabase(file: string): DatabaseSync {
  try {
    mkdirSync(dirname(file), { recursive: true })
    // The -wal and -shm files take their mode from this one.
    closeSync(openSync(file, 'a', 0o600))
    chmodSync(file, 0o600)
    const database = new DatabaseSync(file, { timeout: busyTimeoutMs, enableForeignKeyConstraints: true })
    try {
      // What is changed or deleted is overwritten: the file keeps nothing of it.
      database.exec('pragma journal_mode = wal; pragma synchronous = full; pragma secure_delete = on')
    } catch (error) {
      database.close()
      throw error
    }
    return database
  } catch (error) {
    throw sqliteFailure(error, file)
  }
}

/** Takes the write lock when a transaction begins, so none fails half-way because another process wrote first. */
class ImmediateSqliteDriver extends SqliteDriver {
  override async beginTransaction(connection: DatabaseConnection): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw('begin immediate'))
  }
}

/** A migration that is cut off leaves nothing half-made. */
class TransactionalSqliteAdapter extends SqliteAdapter {
  override get supportsTransactionalDdl(): boolean {
    return true
  }
}

class DurableSqliteDialect extends SqliteDialect {
  readonly #database: SqliteDatabase

  constructor(file: string, native: DatabaseSync) {
    const database = adapt(native, file)
    super({ database })
    this.#database = database
  }

  override createDriver(): SqliteDriver {
    return new ImmediateSqliteDriver({ database: this.#database })
  }

  override createAdapter(): SqliteAdapter {
    return new TransactionalSqliteAdapter()
  }
}

function adapt(database: DatabaseSync, file: string): SqliteDatabase {
  const statements = new Map<string, SqliteStatement>()
  const guarded = <T>(work: () => T): T => {
    try {
      return work()
    } catch (error) {
      throw sqliteFailure(error, file)
    }
  }
  return {
    close: () => guarded(() => database.close()),
    prepare(text) {
      const cached = statements.get(text)
      if (cached) return cached
      const [oldest] = statements.keys()
      if (statements.size >= mostStatements && oldest !== undefined) statements.delete(oldest)
      const statement = guarded(() => adaptStatement(database.prepare(text), guarded))
      statements.set(text, statement)
      return statement
    },
  }
}

function adaptStatement(statement: StatementSync, guarded: <T>(work: () => T) => T): SqliteStatement {
  return {
    reader: statement.columns().length > 0,
    all: (values) => guarded(() => statement.all(...values.map(checkBinding))),
    run: (values) => guarded(() => statement.run(...values.map(checkBinding))),
    iterate: (values) => guarded(() => statement.iterate(...values.map(checkBinding))),
  }
}

/** SQLite's result codes; the low byte of an extended code is its class. */
const code = {
  busy: 5,
  locked: 6,
  readonly: 8,
  ioError: 10,
  corrupt: 11,
  full: 13,
  cannotOpen: 14,
  notADatabase: 26,
}
const extended = { foreignKey: 787, primaryKey: 1555, unique: 2067 }

function sqliteFailure(error: unknown, file: string): AppError {
  if (isAppError(error)) return error
  const cause = error
  const number = Number((error as { errcode?: number }).errcode ?? 0)
  if (number === extended.unique || number === extended.primaryKey) {
    return new AppError('already_exists', 'This exists already; choose another name', { cause })
  }
  if (number === extended.foreignKey) {
    return new AppError('not_found', 'What this belongs to does not exist; check its id', { cause })
  }
  switch (number & 0xff) {
    case code.busy:
    case code.locked:
      return new AppError(
        'unavailable',
        `Another process holds the database ${file}; try again, or stop the other process`,
        { cause, retry: { should: true, afterSeconds: 1 } },
      )
    case code.full:
      return new AppError('no_space', `The disk of the database ${file} is full; free some space on it`, {
        cause,
      })
    case code.corrupt:
    case code.notADatabase:
      return new AppError(
        'internal',
        `The database ${file} is damaged or not a database; move it away together with its -wal and -shm ` +
          'files, and restore a backup',
        { cause },
      )
    case code.readonly:
    case code.ioError:
    case code.cannotOpen:
      return unreachable(file, cause)
  }
  if (number === 0 && typeof (error as { syscall?: string }).syscall === 'string')
    return unreachable(file, cause)
  return new AppError('internal', 'The database refused a statement; the log has the cause', { cause })
}

function unreachable(file: string, cause: unknown): AppError {
  const why = errorText(cause)
  return new AppError(
    'unavailable',
    `The database ${file} cannot be read or written (${why}); check that the disk is well and the file is ours`,
    { cause },
  )
}
