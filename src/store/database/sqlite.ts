/** Kysely over node:sqlite: one file, one connection, every commit on disk before it is answered. */
import { chmodSync, closeSync, mkdirSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import {
  CompiledQuery,
  type DatabaseConnection,
  type LimitNode,
  SqliteAdapter,
  type SqliteDatabase,
  SqliteDialect,
  SqliteDriver,
  SqliteQueryCompiler,
  type SqliteStatement,
  ValueNode,
} from 'kysely'
import { AppError, errorText, isAppError } from '../../lib/app-error.ts'
import { checkBinding } from './bindings.ts'
import { logOf, type SyncLog, WalSync } from './wal-sync.ts'

const busyTimeoutMs = 5000
/** Bounds the cache, because queries with lists of any length make ever new statements. */
const maxStatements = 200

/** Without `syncLog`, the write-ahead log is synced to the disk. */
export function sqliteDialect(file: string, syncLog?: SyncLog): SqliteDialect {
  const log = logOf(file)
  const walSync = new WalSync(() =>
    (syncLog ?? log.sync)().catch((error) => Promise.reject(syncFailure(error, file))),
  )
  return new DurableSqliteDialect(adapt(openDatabase(file), { file, walSync, onClose: log.close }), walSync)
}

/** For a database that is open already and not on a disk; `file` is its name in messages. */
export function dialectOver(database: DatabaseSync, file: string): SqliteDialect {
  return new DurableSqliteDialect(adapt(database, { file }))
}

function openDatabase(file: string): DatabaseSync {
  try {
    mkdirSync(dirname(file), { recursive: true })
    // The -wal and -shm files take their mode from this one.
    closeSync(openSync(file, 'a', 0o600))
    chmodSync(file, 0o600)
    const database = new DatabaseSync(file, { timeout: busyTimeoutMs, enableForeignKeyConstraints: true })
    try {
      // SQLite overwrites changed and deleted data, so that the file keeps no trace of it. A commit leaves
      // the sync of its log to `WalSync`; a checkpoint syncs both files before it reuses the log.
      database.exec('pragma journal_mode = wal; pragma synchronous = normal; pragma secure_delete = on')
    } catch (error) {
      database.close()
      throw error
    }
    return database
  } catch (error) {
    throw sqliteFailure(error, file)
  }
}

class DurableSqliteDriver extends SqliteDriver {
  readonly #walSync: WalSync | undefined

  constructor(database: SqliteDatabase, walSync: WalSync | undefined) {
    super({ database })
    this.#walSync = walSync
  }

  override async acquireConnection(): Promise<DatabaseConnection> {
    this.#walSync?.throwIfFailed()
    return super.acquireConnection()
  }

  /**
   * Takes the write lock at once, so that no transaction fails half-way because another process wrote first.
   */
  override async beginTransaction(connection: DatabaseConnection): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw('begin immediate'))
  }

  /**
   * Kysely returns the result of a statement or a transaction after this. So no caller, not even a reader of
   * others' commits, gets data that is not on disk yet, while the next caller already has the connection.
   */
  override async releaseConnection(): Promise<void> {
    await super.releaseConnection()
    await this.#walSync?.untilSynced()
  }
}

/** A migration that is cut off leaves nothing behind. */
class TransactionalSqliteAdapter extends SqliteAdapter {
  override get supportsTransactionalDdl(): boolean {
    return true
  }
}

/**
 * SQLite plans by the value of a limit, so it recompiles a prepared statement whenever one is bound, which
 * takes ten times as long as running it. The limit is written into the text instead.
 */
class SqliteCompiler extends SqliteQueryCompiler {
  protected override visitLimit(node: LimitNode): void {
    const value = ValueNode.is(node.limit) ? node.limit.value : undefined
    if (Number.isSafeInteger(value)) this.append(`limit ${value}`)
    else super.visitLimit(node)
  }
}

class DurableSqliteDialect extends SqliteDialect {
  readonly #database: SqliteDatabase
  readonly #walSync: WalSync | undefined

  constructor(database: SqliteDatabase, walSync?: WalSync) {
    super({ database })
    this.#database = database
    this.#walSync = walSync
  }

  override createDriver(): SqliteDriver {
    return new DurableSqliteDriver(this.#database, this.#walSync)
  }

  override createAdapter(): SqliteAdapter {
    return new TransactionalSqliteAdapter()
  }

  override createQueryCompiler(): SqliteQueryCompiler {
    return new SqliteCompiler()
  }
}

type AdaptOptions = { file: string; walSync?: WalSync; onClose?: () => void }

function adapt(database: DatabaseSync, { file, walSync, onClose }: AdaptOptions): SqliteDatabase {
  const statements = new Map<string, SqliteStatement>()
  const guarded = <T>(work: () => T): T => {
    try {
      return work()
    } catch (error) {
      throw sqliteFailure(error, file)
    }
  }
  const prepare = (text: string): SqliteStatement => {
    const statement = database.prepare(text)
    const isRead = readsOnly.test(text)
    const run = <T>(work: () => T): T =>
      guarded(() => {
        const result = work()
        if (!isRead && !database.isTransaction) walSync?.countCommit()
        return result
      })
    return {
      reader: statement.columns().length > 0,
      all: (values) => run(() => statement.all(...values.map(checkBinding))),
      run: (values) => run(() => statement.run(...values.map(checkBinding))),
      iterate: (values) => run(() => statement.iterate(...values.map(checkBinding))),
    }
  }
  return {
    close: () => {
      guarded(() => database.close())
      onClose?.()
    },
    prepare(text) {
      const cached = statements.get(text)
      if (cached) return cached
      const [oldest] = statements.keys()
      if (statements.size >= maxStatements && oldest !== undefined) statements.delete(oldest)
      const statement = guarded(() => prepare(text))
      statements.set(text, statement)
      return statement
    },
  }
}

/** Any other statement may have written something. */
const readsOnly = /^\s*(select|rollback)\b/i

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
    return new AppError('not_found', 'The parent object does not exist; check its ID', { cause })
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
  return new AppError('internal', 'The database rejected a statement; the log has the cause', { cause })
}

function unreachable(file: string, cause: unknown): AppError {
  const why = errorText(cause)
  return new AppError(
    'unavailable',
    `The database ${file} cannot be read or written (${why}); check the disk, and that the file belongs to the user of Warren`,
    { cause },
  )
}

function syncFailure(cause: unknown, file: string): AppError {
  return new AppError(
    'unavailable',
    `Writes to the database ${file} may be lost, because the disk failed to sync them (${errorText(cause)}); check the disk, then ` +
      'start Warren again',
    { cause },
  )
}
