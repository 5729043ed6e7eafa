/**
 * The real store over SQLite in memory. Migrations run once; between histories the rows are deleted, which is
 * what makes thousands of histories a minute possible. Triggers tell every change of a row as it happens, by
 * whatever statement it was made.
 */
import { DatabaseSync } from 'node:sqlite'
import { Kysely } from 'kysely'
import { dialectOver } from '../../src/store/database/sqlite.ts'
import type { Tables } from '../../src/store/database/tables.ts'
import { migrate, migrationsWith } from '../../src/store/migrate.ts'
import { storesOver } from '../../src/store/open-stores.ts'
import type { Stores } from '../../src/store/stores.ts'
import { vault } from '../../src/store/suite/rows.ts'

export type Row = Record<string, string | number | null>
/** `before` is undefined for an insert, `after` for a delete. */
export type RowChange = { table: string; before: Row | undefined; after: Row | undefined }

/** Tables of sandboxes and volumes, of their events and webhooks, and of the owners of snapshots. */
const watchedTables = [
  ...['sandboxes', 'sandbox_events', 'volumes'],
  ...['webhooks', 'webhook_deliveries', 'leases'],
  ...['template_builds', 'build_cache', 'quarantine'],
]

export class SimulatedDatabase {
  readonly #database: DatabaseSync
  readonly #db: Kysely<Tables>
  readonly #tables: string[]
  #watcher: ((change: RowChange) => void) | undefined
  #uncommitted: RowChange[] = []
  #now: () => number = Date.now

  static async open(): Promise<SimulatedDatabase> {
    const database = new DatabaseSync(':memory:', { enableForeignKeyConstraints: true })
    const migrated = new Kysely<Tables>({ dialect: dialectOver(database, ':memory:') })
    await migrate(migrated, migrationsWith(vault))
    return new SimulatedDatabase(database)
  }

  private constructor(database: DatabaseSync) {
    this.#database = database
    // Its statements are prepared anew, so that the ends of transactions are seen.
    this.#db = new Kysely<Tables>({ dialect: dialectOver(database, ':memory:') })
    this.#tables = referrersFirst(database)
    database.function('row_changed', (table, before, after) => {
      const parse = (text: unknown) => (text === null ? undefined : (JSON.parse(String(text)) as Row))
      this.#uncommitted.push({ table: String(table), before: parse(before), after: parse(after) })
      if (!database.isTransaction) this.#notifyWatcher()
      return null
    })
    this.#watchEnds()
    // The clock that leases of nodes go by.
    database.function('unixepoch', { varargs: true }, () => this.#now() / 1000)
    for (const table of watchedTables) this.#watchTable(table)
  }

  /** Changes of a transaction, which are reported when it commits, and never when it is rolled back. */
  #watchEnds(): void {
    const database = this.#database
    const prepare = database.prepare.bind(database)
    database.prepare = (text, ...rest) => {
      const statement = prepare(text, ...rest)
      const isCommit = /^\s*commit\b/i.test(text)
      if (!isCommit && !/^\s*rollback\b/i.test(text)) return statement
      const run = statement.run.bind(statement)
      statement.run = () => {
        const result = run()
        if (isCommit) this.#notifyWatcher()
        else this.#uncommitted = []
        return result
      }
      return statement
    }
  }

  #notifyWatcher(): void {
    const changes = this.#uncommitted
    this.#uncommitted = []
    for (const change of changes) this.#watcher?.(change)
  }

  /** What one Warren sees of it. */
  storesOf(nodeID: string): Stores {
    return storesOver(this.#db, vault, nodeID)
  }

  /** Empties the tables; from now on `watcher` gets every change, with the time of `now`. */
  reset(watcher: (change: RowChange) => void, now: () => number): void {
    this.#watcher = undefined
    this.#now = now
    for (const table of this.#tables) this.#database.exec(`delete from ${table}`)
    this.#watcher = watcher
  }

  #watchTable(table: string): void {
    const columns = (this.#database.prepare(`pragma table_info(${table})`).all() as Row[]).map(
      ({ name }) => name,
    )
    const json = (row: string) =>
      `json_object(${columns.map((name) => `'${name}', ${row}.${name}`).join(', ')})`
    const events = {
      insert: ['null', json('new')],
      update: [json('old'), json('new')],
      delete: [json('old'), 'null'],
    }
    for (const [event, [before, after]] of Object.entries(events)) {
      this.#database.exec(
        `create temp trigger watch_${table}_${event} after ${event} on ${table} ` +
          `begin select row_changed('${table}', ${before}, ${after}); end`,
      )
    }
  }
}

/**
 * All tables, each after those that refer to it, so that they can be emptied in this order. Turning foreign keys off instead
 * would make SQLite compile every prepared statement anew in the next history, which takes longer than the history.
 */
function referrersFirst(database: DatabaseSync): string[] {
  const found = database.prepare(`select name from sqlite_master where type = 'table'`).all() as Row[]
  const tables = found.map(({ name }) => String(name)).filter((name) => !/^(sqlite|kysely)_/.test(name))
  const ordered = new Set<string>()
  const add = (table: string) => {
    if (ordered.has(table)) return
    for (const { name } of referrers.all(table) as Row[]) if (name !== table) add(String(name))
    ordered.add(table)
  }
  const referrers = database.prepare(
    `select distinct m.name from sqlite_master m, pragma_foreign_key_list(m.name) f where f."table" = ?`,
  )
  for (const table of tables) add(table)
  return [...ordered]
}
