import { type Kysely, PostgresAdapter, sql } from 'kysely'

type Trigger = { name: string; event: string; when: string; body: string }

/**
 * Counts a team's sandboxes on a node in each state, and their resources, in the same statement that changes
 * a row; ended ones are not counted. Drops the indexes that served this purpose before: every change of a
 * state wrote to them.
 */
export async function up(db: Kysely<never>): Promise<void> {
  await createTable(db)
  const isPostgres = db.getExecutor().adapter instanceof PostgresAdapter
  for (const trigger of triggers) {
    for (const text of isPostgres ? postgresTrigger(trigger) : [sqliteTrigger(trigger)])
      await sql.raw(text).execute(db)
  }
  const { schema } = db
  for (const name of ['sandboxes_of_team', 'sandboxes_of_node']) await schema.dropIndex(name).execute()
  await schema
    .createIndex('sandboxes_unended')
    .on('sandboxes')
    .columns(['id', 'node_id'] as never[])
    .where(sql.ref('state'), '<>', 'ended')
    .execute()
}

async function createTable(db: Kysely<never>): Promise<void> {
  await db.schema
    .createTable('sandbox_counts')
    .addColumn('team_id', 'text', (column) => column.notNull().references('teams.id').onDelete('cascade'))
    // Empty for rows that wait to be adopted.
    .addColumn('node_id', 'text', (column) => column.notNull())
    .addColumn('state', 'text', (column) => column.notNull())
    .addColumn('is_frozen', 'integer', (column) => column.notNull())
    .addColumn('sandboxes', 'integer', (column) => column.notNull())
    .addColumn('cpu_count', 'integer', (column) => column.notNull())
    .addColumn('memory_mb', 'integer', (column) => column.notNull())
    .addPrimaryKeyConstraint('sandbox_counts_key', ['team_id', 'node_id', 'state', 'is_frozen'])
    .execute()
  await db.schema.createIndex('sandbox_counts_by_node').on('sandbox_counts').column('node_id').execute()
  await sql
    .raw(
      `insert into sandbox_counts (${columns}) ` +
        "select team_id, coalesce(node_id, ''), state, is_frozen, count(*), sum(cpu_count), sum(memory_mb) " +
        "from sandboxes where state <> 'ended' group by team_id, node_id, state, is_frozen",
    )
    .execute(db)
}

const key = 'team_id, node_id, state, is_frozen'
const columns = `${key}, sandboxes, cpu_count, memory_mb`

const values = (row: 'old' | 'new', times: 1 | -1): string =>
  `select ${row}.team_id as team_id, coalesce(${row}.node_id, '') as node_id, ${row}.state as state, ` +
  `${row}.is_frozen as is_frozen, ${times} as sandboxes, ${times} * ${row}.cpu_count as cpu_count, ` +
  `${times} * ${row}.memory_mb as memory_mb`

/** In one order for all, so that no two transactions wait for each other's rows. */
const add = (...changes: string[]): string => `insert into sandbox_counts (${columns})
  select ${columns} from (${changes.join(' union all ')}) as changes
  where state <> 'ended' order by ${key}
  on conflict (${key}) do update set sandboxes = sandbox_counts.sandboxes + excluded.sandboxes,
    cpu_count = sandbox_counts.cpu_count + excluded.cpu_count,
    memory_mb = sandbox_counts.memory_mb + excluded.memory_mb;`

/** The team and the sizes of a row never change. */
const triggers: Trigger[] = [
  {
    name: 'sandbox_counts_insert',
    event: 'after insert on sandboxes',
    when: "new.state <> 'ended'",
    body: add(values('new', 1)),
  },
  {
    name: 'sandbox_counts_update',
    event: 'after update of node_id, state, is_frozen on sandboxes',
    when: 'old.state <> new.state or old.is_frozen <> new.is_frozen or old.node_id is distinct from new.node_id',
    body: add(values('old', -1), values('new', 1)),
  },
  {
    name: 'sandbox_counts_delete',
    event: 'after delete on sandboxes',
    when: "old.state <> 'ended'",
    body: add(values('old', -1)),
  },
]

const sqliteTrigger = ({ name, event, when, body }: Trigger): string =>
  `create trigger ${name} ${event} when ${when} begin ${body} end`

const postgresTrigger = ({ name, event, when, body }: Trigger): string[] => [
  `create function ${name}() returns trigger language plpgsql as $$ begin ${body} return null; end $$`,
  `create trigger ${name} ${event} for each row when (${when}) execute function ${name}()`,
]
