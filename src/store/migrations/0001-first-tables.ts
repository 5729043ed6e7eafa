import type { Kysely } from 'kysely'

export async function up(db: Kysely<never>): Promise<void> {
  await createTeams(db)
  await createTemplates(db)
  await createSandboxes(db)
}

async function createTeams({ schema }: Kysely<never>): Promise<void> {
  await schema
    .createTable('teams')
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('slug', 'text', (column) => column.notNull().unique())
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('max_sandboxes', 'bigint', (column) => column.notNull())
    .addColumn('max_cpu', 'bigint', (column) => column.notNull())
    .addColumn('max_memory_mb', 'bigint', (column) => column.notNull())
    .addColumn('max_lifetime_hours', 'double precision', (column) => column.notNull())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .execute()
  await schema
    .createTable('api_keys')
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('team_id', 'text', (column) => column.notNull().references('teams.id'))
    .addColumn('hash', 'text', (column) => column.notNull().unique())
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('mask_prefix', 'text', (column) => column.notNull())
    .addColumn('mask_suffix', 'text', (column) => column.notNull())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addColumn('last_used_at', 'bigint')
    .addColumn('revoked_at', 'bigint')
    .execute()
  await schema.createIndex('api_keys_by_team').on('api_keys').columns(['team_id', 'created_at']).execute()
}

async function createTemplates({ schema }: Kysely<never>): Promise<void> {
  await schema
    .createTable('templates')
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('team_id', 'text', (column) => column.references('teams.id'))
    .addColumn('is_public', 'integer', (column) => column.notNull())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addColumn('updated_at', 'bigint', (column) => column.notNull())
    .addColumn('last_spawned_at', 'bigint')
    .addColumn('spawn_count', 'bigint', (column) => column.notNull())
    .execute()
  await schema.createIndex('templates_by_team').on('templates').columns(['team_id', 'created_at']).execute()
  await schema
    .createTable('template_aliases')
    .addColumn('namespace', 'text', (column) => column.notNull())
    .addColumn('alias', 'text', (column) => column.notNull())
    .addColumn('template_id', 'text', (column) =>
      column.notNull().references('templates.id').onDelete('cascade'),
    )
    .addColumn('position', 'integer', (column) => column.notNull())
    .addPrimaryKeyConstraint('template_aliases_key', ['namespace', 'alias'])
    .execute()
  await schema
    .createIndex('template_aliases_by_template')
    .on('template_aliases')
    .column('template_id')
    .execute()
  await schema
    .createTable('template_builds')
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('template_id', 'text', (column) =>
      column.notNull().references('templates.id').onDelete('cascade'),
    )
    .addColumn('status', 'text', (column) => column.notNull())
    .addColumn('cpu_count', 'integer', (column) => column.notNull())
    .addColumn('memory_mb', 'integer', (column) => column.notNull())
    .addColumn('disk_mb', 'integer', (column) => column.notNull())
    .addColumn('envd_version', 'text', (column) => column.notNull())
    .addColumn('root_folder', 'text')
    .addColumn('env_vars', 'text', (column) => column.notNull())
    .addColumn('default_user', 'text', (column) => column.notNull())
    .addColumn('default_workdir', 'text', (column) => column.notNull())
    .addColumn('start_cmd', 'text')
    .addColumn('ready_cmd', 'text')
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addColumn('updated_at', 'bigint', (column) => column.notNull())
    .addColumn('finished_at', 'bigint')
    .execute()
  await schema
    .createIndex('template_builds_by_template')
    .on('template_builds')
    .columns(['template_id', 'created_at'])
    .execute()
  await schema
    .createTable('template_tags')
    .addColumn('template_id', 'text', (column) =>
      column.notNull().references('templates.id').onDelete('cascade'),
    )
    .addColumn('sequence', 'bigint', (column) => column.notNull())
    .addColumn('tag', 'text', (column) => column.notNull())
    .addColumn('build_id', 'text', (column) =>
      column.notNull().references('template_builds.id').onDelete('cascade'),
    )
    .addColumn('assigned_at', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('template_tags_key', ['template_id', 'sequence'])
    .execute()
  await schema
    .createIndex('template_tags_by_tag')
    .on('template_tags')
    .columns(['template_id', 'tag', 'sequence'])
    .execute()
  await schema.createIndex('template_tags_by_build').on('template_tags').column('build_id').execute()
}

async function createSandboxes({ schema }: Kysely<never>): Promise<void> {
  // Template and build are not references: an ended row is history and may outlive both.
  await schema
    .createTable('sandboxes')
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('team_id', 'text', (column) => column.notNull().references('teams.id'))
    .addColumn('template_id', 'text', (column) => column.notNull())
    .addColumn('build_id', 'text', (column) => column.notNull())
    .addColumn('alias', 'text')
    .addColumn('state', 'text', (column) => column.notNull())
    .addColumn('run_id', 'text', (column) => column.notNull())
    .addColumn('handle', 'text')
    .addColumn('cpu_count', 'integer', (column) => column.notNull())
    .addColumn('memory_mb', 'integer', (column) => column.notNull())
    .addColumn('disk_mb', 'integer', (column) => column.notNull())
    .addColumn('envd_version', 'text', (column) => column.notNull())
    .addColumn('metadata', 'text', (column) => column.notNull())
    .addColumn('env_vars', 'text', (column) => column.notNull())
    .addColumn('options', 'text', (column) => column.notNull())
    .addColumn('timeout_ms', 'bigint', (column) => column.notNull())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addColumn('started_at', 'bigint', (column) => column.notNull())
    .addColumn('end_at', 'bigint', (column) => column.notNull())
    .addColumn('ended_at', 'bigint')
    .addColumn('end_reason', 'text')
    .execute()
  await schema
    .createIndex('sandboxes_by_team')
    .on('sandboxes')
    .columns(['team_id', 'state', 'started_at'])
    .execute()
  await schema.createIndex('sandboxes_by_end').on('sandboxes').columns(['state', 'end_at']).execute()
  await schema
    .createTable('sandbox_metadata')
    .addColumn('sandbox_id', 'text', (column) =>
      column.notNull().references('sandboxes.id').onDelete('cascade'),
    )
    .addColumn('pair_hash', 'text', (column) => column.notNull())
    .addPrimaryKeyConstraint('sandbox_metadata_key', ['sandbox_id', 'pair_hash'])
    .execute()
  await schema
    .createTable('idempotency_claims')
    .addColumn('team_id', 'text', (column) => column.notNull().references('teams.id'))
    .addColumn('key_hash', 'text', (column) => column.notNull())
    .addColumn('request_hash', 'text', (column) => column.notNull())
    .addColumn('sandbox_id', 'text', (column) =>
      column.notNull().references('sandboxes.id').onDelete('cascade'),
    )
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addPrimaryKeyConstraint('idempotency_claims_key', ['team_id', 'key_hash'])
    .execute()
  await schema
    .createIndex('idempotency_claims_by_sandbox')
    .on('idempotency_claims')
    .column('sandbox_id')
    .execute()
}
