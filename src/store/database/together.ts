/** Several statements of a transaction that need one wait for the database. */
import { type Compilable, CompiledQuery, type Kysely, PostgresAdapter, type QueryResult } from 'kysely'
import type { Tables } from './tables.ts'

type Results<S extends readonly Compilable[]> = {
  [K in keyof S]: QueryResult<S[K] extends Compilable<infer Row> ? Row : never>
}

/** True on PostgreSQL. SQLite lets one transaction write at a time, and has no network in between. */
export const isPostgres = (db: Kysely<Tables>): boolean => db.getExecutor().adapter instanceof PostgresAdapter

/**
 * Sends the statements at once. They run one after the other, each sees the effects of those before it and what others
 * have committed until then. If one fails, those after it fail, too, and the transaction must be rolled back.
 */
export function runTogether<const S extends readonly Compilable[]>(
  transaction: Kysely<Tables>,
  statements: S,
): Promise<Results<S>> {
  return transaction.getExecutor().provideConnection(async (connection) => {
    const results = statements.map((statement) => connection.executeQuery(statement.compile()))
    return (await Promise.all(results)) as Results<S>
  })
}

/** The last statements of a transaction, together with its commit. */
export async function runAndCommit<const S extends readonly Compilable[]>(
  transaction: Kysely<Tables>,
  statements: S,
): Promise<Results<S>> {
  // A commit on SQLite would keep the statements before one that failed.
  const commit = isPostgres(transaction) ? [{ compile: () => CompiledQuery.raw('commit') }] : []
  return (await runTogether(transaction, [...statements, ...commit])) as unknown as Results<S>
}
