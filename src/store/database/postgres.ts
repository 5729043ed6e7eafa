/** Kysely over PostgreSQL through a pool of connections. */
import type { Duplex } from 'node:stream'
import { PostgresDialect, type PostgresPool, type PostgresPoolClient } from 'kysely'
import { Pool, type PoolClient, types } from 'pg'
import { AppError, type ErrorCode, errorText, isAppError } from '../../lib/app-error.ts'
import { systemClock } from '../../lib/clock.ts'
import { type Binding, checkBinding } from './bindings.ts'
import { databaseUnreachable } from './database-trouble.ts'
import { ServerProbe } from './server-probe.ts'
import { StatementNames } from './statement-names.ts'

const defaultConnections = 10
/** How long a query waits for a new or free connection of the pool. */
const connectTimeoutMs = 10_000
/**
 * After this time PostgreSQL ends a session that waits for the next statement of its transaction. A Warren that stands still
 * there would lock the others out.
 */
const endIdleTransactions = "set idle_in_transaction_session_timeout = '10s'"
/** Read for each statement. Undefined while a statement may take as long as it needs. */
export type StatementLimit = { statementMs?: number }

type PostgresOptions = {
  /** The most that this process opens at once. */
  connections?: number | undefined
  limit?: StatementLimit
}

export function postgresDialect(url: string, options: PostgresOptions = {}): PostgresDialect {
  const { connections = defaultConnections, limit = {} } = options
  return new PostgresDialect({ pool: adapt(openPool(url, connections), new ServerProbe(url), limit) })
}

function openPool(url: string, connections: number): Pool {
  const pool = new Pool({
    connectionString: url,
    max: connections,
    connectionTimeoutMillis: connectTimeoutMs,
    keepAlive: true,
    // Statements are sent without waiting for the answers to those before them, where a transaction sends several.
    pipeline: true,
    application_name: 'warren',
    types: { getTypeParser: parserOf },
  })
  // The pool drops a broken connection, and the query on it rejects. Without a listener, the event would end
  // the process.
  pool.on('error', () => {})
  pool.on('connect', (client) => {
    client.on('error', () => {})
    // Not among the parameters of the connection: connection poolers reject those that they do not know.
    client.query(endIdleTransactions).catch(() => {})
  })
  return pool
}

/** Times and counts are int8, which pg returns as text; all of ours fit a number. */
function parserOf(oid: number, format?: string) {
  if (oid === types.builtins.INT8 && format !== 'binary') return Number
  return types.getTypeParser(oid, format as 'text')
}

function adapt(pool: Pool, probe: ServerProbe, limit: StatementLimit): PostgresPool {
  const shared: SharedParts = { probe, limit, names: new StatementNames() }
  return {
    async connect() {
      const client = await guarded(() => connectWhileAnswering(pool, probe), { connecting: true })
      return new Session(client, shared) as unknown as PostgresPoolClient
    },
    end: () => guarded(() => pool.end()),
  }
}

async function connectWhileAnswering(pool: Pool, probe: ServerProbe): Promise<PoolClient> {
  probe.requireAnswers()
  const { promise: silence, reject } = Promise.withResolvers<never>()
  // Throws at once if the URL is none.
  const connecting = pool.connect()
  const stop = probe.watch(reject)
  try {
    return await Promise.race([connecting, silence])
  } catch (error) {
    connecting.then(
      (client) => client.release(),
      () => {},
    )
    throw error
  } finally {
    stop()
  }
}

const begins = /^(begin|start transaction)/
const ends = /^(commit|rollback)$/
const nothing = { command: '', rowCount: null, rows: [] }

/** What all connections of a pool share. */
type SharedParts = { probe: ServerProbe; limit: StatementLimit; names: StatementNames }

/** One use of a connection, by a statement or a transaction. */
class Session {
  readonly #client: PoolClient
  readonly #shared: SharedParts
  #begun: Promise<unknown> | undefined
  #committed: Promise<unknown> | undefined

  constructor(client: PoolClient, shared: SharedParts) {
    this.#client = client
    this.#shared = shared
  }

  async query(text: string, values: readonly unknown[]): Promise<unknown> {
    if (begins.test(text)) {
      // Nobody waits for this answer alone: it comes before that of the first statement.
      this.#begun = this.#send(text, values)
      this.#begun.catch(() => {})
      this.#committed = undefined
      return nothing
    }
    // The last statements were sent together with their commit, which has failed if one of them has.
    if (this.#committed && ends.test(text)) return text === 'commit' ? this.#committed : nothing
    const result = this.#send(text, values)
    if (text === 'commit') this.#committed = result
    const [, answer] = await Promise.all([this.#begun, result])
    return answer
  }

  release(): void {
    this.#client.release()
  }

  async #send(text: string, values: readonly unknown[]): Promise<unknown> {
    const { names } = this.#shared
    const stop = this.#watch()
    try {
      const bound = values.map(checkPostgresBinding)
      const name = bound.length > 0 ? names.nameOf(text) : undefined
      joinWrites(this.#client)
      return await this.#client.query({ text, values: bound, ...(name !== undefined && { name }) })
    } catch (error) {
      if (!isPlanOutdated(error)) throw postgresFailure(error, { connecting: false })
      names.renew()
      if (this.#begun)
        throw databaseUnreachable('A migration has changed a table meanwhile; try again', error)
      // The statement has not run.
      return this.#send(text, values)
    } finally {
      stop()
    }
  }

  /** Breaks the connection if the server does not answer a statement. Until the returned function is called. */
  #watch(): () => void {
    const { probe, limit } = this.#shared
    const { stream } = (this.#client as unknown as ServerConnection).connection
    // The client's own `end` waits for the answers to all statements that were sent.
    const stopProbe = probe.watch((error) => stream.destroy(error))
    const { statementMs } = limit
    if (statementMs === undefined) return stopProbe
    const stopTimer = systemClock.after(statementMs, () =>
      stream.destroy(
        new Error(`a statement was not answered for ${statementMs / 1000} s, so its connection was closed`),
      ),
    )
    return () => {
      stopProbe()
      stopTimer()
    }
  }
}

/** A migration of a newer Warren has added a column that the named statement would return. */
function isPlanOutdated(error: unknown): boolean {
  const { code, message } = error as { code?: unknown; message?: unknown }
  return code === '0A000' && /cached plan/.test(String(message))
}

/** Makes one packet of the statements that are sent in the same turn of the event loop. */
function joinWrites(client: PoolClient): void {
  const { stream } = (client as unknown as ServerConnection).connection
  stream.cork()
  process.nextTick(() => stream.uncork())
}

/** Properties of a pool client that its type lacks. */
type ServerConnection = { connection: { stream: Duplex } }

async function guarded<T>(work: () => Promise<T>, phase = { connecting: false }): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw postgresFailure(error, phase)
  }
}

/**
 * Kysely queries PostgreSQL's catalog with booleans. Our own flags are 0 and 1, because PostgreSQL accepts no
 * booleans for them.
 */
function checkPostgresBinding(value: unknown): Binding | boolean {
  return typeof value === 'boolean' ? value : checkBinding(value)
}

const unavailableClasses = /^(08|53|57P|55P03|40)/
const rejectedLogins: ReadonlySet<string> = new Set(['28000', '28P01', '3D000', '42501'])
const networkFailure = /^E[A-Z]+$/
const certificateFailure = /CERT|^UNABLE_TO_/

function postgresFailure(cause: unknown, { connecting }: { connecting: boolean }): AppError {
  if (isAppError(cause)) return cause
  const code = String((cause as { code?: unknown }).code ?? '')
  const said = errorText(cause)
  if (rejectedLogins.has(code)) {
    const what = said.endsWith('no encryption')
      ? 'it may want TLS: add ?sslmode=verify-full to WARREN_DATABASE_URL (docs/postgresql.md)'
      : 'check user, password and database in WARREN_DATABASE_URL'
    return databaseUnreachable(`PostgreSQL rejected the login (${said}); ${what}`, cause)
  }
  if (certificateFailure.test(code)) {
    const what = 'give WARREN_DATABASE_URL the host name in the certificate, and its authority as sslrootcert'
    return databaseUnreachable(
      `The certificate of PostgreSQL is not accepted (${said}); ${what} (docs/postgresql.md)`,
      cause,
    )
  }
  const known = knownFailure(code, said)
  if (known) return new AppError(known[0], known[1], { cause })
  // pg reports the end of a connection by its message only, without a code.
  const lost = code === '' && /terminated|timeout|closed|silent|not queryable|after calling end/i.test(said)
  if (connecting || lost || unavailableClasses.test(code) || networkFailure.test(code)) {
    return databaseUnreachable(
      `PostgreSQL cannot be reached or did not finish (${said || code}); check that the server of ` +
        'WARREN_DATABASE_URL runs and try again',
      cause,
    )
  }
  return new AppError('internal', 'The database rejected a statement; the log has the cause', { cause })
}

/** Failures that have a PostgreSQL code and that a retry does not cure. */
function knownFailure(code: string, said: string): [code: ErrorCode, message: string] | undefined {
  switch (code) {
    case 'ERR_INVALID_URL':
      return [
        'invalid_argument',
        'The database URL cannot be read; write it as postgres://user:password@host:5432/database, with ' +
          'special characters percent-encoded',
      ]
    case '23505':
      return ['already_exists', 'This exists already; choose another name']
    case '23503':
      return ['not_found', 'The parent object does not exist; check its ID']
    case '22003':
      return ['invalid_argument', 'A number is too big to be stored; use a smaller one']
    case '53100':
      return ['no_space', 'The disk of the PostgreSQL server is full; free some space on it']
    case 'XX001':
    case 'XX002':
      return ['internal', `The PostgreSQL database is damaged (${said}); restore a backup`]
  }
  return undefined
}
