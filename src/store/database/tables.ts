/** The rows in the database: times are integer milliseconds, flags 0 or 1, JSON is text. */
import type { Generated } from 'kysely'
import type { NodeStatus } from '../../core/cluster/node.ts'
import type { EventType } from '../../core/event/event.ts'
import type { Role } from '../../core/person/person.ts'
import type { EndReason, SandboxState } from '../../core/sandbox/row/sandbox.ts'
import type { BuildStatus } from '../../core/template/template.ts'
import type { VolumeState } from '../../core/volume/volume.ts'
import type { DeliveryStatus } from '../../core/webhook/webhook.ts'
import type { AuditLineRow } from './audit-row.ts'
import type { PersonRow, SessionRow, TeamMemberRow } from './person-tables.ts'
import type { TeamBudgetRow, UsageDayRow } from './usage-tables.ts'

type Flag = 0 | 1
type Json = string

export type TeamRow = {
  id: string
  slug: string
  name: string
  max_sandboxes: number
  max_cpu: number
  max_memory_mb: number
  max_lifetime_hours: number
  max_gpus: number
  older_clients: Flag
  created_at: number
}

export type ApiKeyRow = {
  id: string
  team_id: string
  hash: string
  name: string
  mask_prefix: string
  mask_suffix: string
  created_at: number
  last_used_at: number | null
  revoked_at: number | null
  role: Role
  /** Null: the key is for a service. */
  person_id: string | null
  /** Who made it, for people to read; null in keys of versions that did not know people. */
  made_by: string | null
  expires_at: number | null
  last_used_from: string | null
}

export type AccessTokenRow = {
  id: string
  team_id: string
  hash: string
  name: string
  mask_prefix: string
  mask_suffix: string
  key_id: string
  created_at: number
  revoked_at: number | null
}

type TeamMetricRow = {
  team_id: string
  at: number
  node_id: string
  concurrent_sandboxes: number
  started_sandboxes: number
}

export type TemplateRow = {
  id: string
  team_id: string | null
  is_public: Flag
  is_snapshot: Flag
  created_at: number
  updated_at: number
  last_spawned_at: number | null
  spawn_count: number
}

export type TemplateAliasRow = {
  /** Empty for public names: NULL would escape the unique index. */
  namespace: string
  alias: string
  template_id: string
  /** The order in which the template got its names. */
  position: number
}

export type TemplateBuildRow = {
  /** The Warren that runs the build and has its result; null in rows that wait to be adopted. */
  node_id: string | null
  id: string
  template_id: string
  status: BuildStatus
  cpu_count: number
  memory_mb: number
  disk_mb: number
  gpu_count: number
  envd_version: string
  root_folder: string | null
  layers: Json | null
  env_vars: Json
  default_user: string
  default_workdir: string
  start_cmd: string | null
  ready_cmd: string | null
  service_context: Json | null
  start_request: Json | null
  saved_name: string | null
  saved_memory: Flag | null
  source_sandbox_id: string | null
  created_at: number
  updated_at: number
  finished_at: number | null
  reason_message: string | null
  reason_step: string | null
  /** When the object store got its bytes; null if only the disk of its node has them. */
  stored_at: number | null
  stored_needs: Json | null
  stored_index: string | null
  /** When another node last did not find the stored bytes; null if nobody doubts that they are there. */
  doubted_at: number | null
}

/** One assignment of a tag. The newest has the highest sequence; older ones stay. */
type TemplateTagRow = {
  template_id: string
  sequence: number
  tag: string
  build_id: string
  assigned_at: number
}

export type SandboxRow = {
  /** The Warren whose machine has the sandbox; null in rows that wait to be adopted. */
  node_id: string | null
  id: string
  team_id: string
  template_id: string
  build_id: string
  alias: string | null
  state: SandboxState
  run_id: string
  move_id: string | null
  /** Number of events written for the sandbox. */
  event_count: number
  handle: Json | null
  cpu_count: number
  memory_mb: number
  disk_mb: number
  gpu_count: number
  owner_person_id: string | null
  envd_version: string
  metadata: Json
  env_vars: Json
  /** The options without the sealed parts of the network. */
  options: Json
  /** Copied from the options; 0 in rows of versions that did not know it. */
  auto_pause: Flag
  network_key_id: string | null
  network_sealed: string | null
  saved: Json | null
  /** Repeats a field of the JSON in `saved`, so that queries can use it. */
  is_frozen: Flag
  /** When the object store got its snapshot; null if only the disk of its node has it. */
  stored_at: number | null
  stored_needs: Json | null
  stored_index: string | null
  timeout_ms: number
  created_at: number
  started_at: number
  end_at: number
  ended_at: number | null
  end_reason: EndReason | null
  /** Set if a drain has paused the sandbox: it is to run again until this time. */
  run_until: number | null
  version: number
}

/**
 * Number and resources of a team's sandboxes on a node in each state except `ended`; triggers maintain it.
 */
type SandboxCountRow = {
  team_id: string
  /** Empty for rows that wait to be adopted. */
  node_id: string
  state: SandboxState
  is_frozen: Flag
  sandboxes: number
  cpu_count: number
  memory_mb: number
}

export type QuarantineRow = {
  snapshot_name: string
  node_id: string
  sandbox_id: string | null
  reason: string
  since: number
}

/** One row per metadata pair, hashed because PostgreSQL cannot index texts of any length. */
type SandboxMetadataRow = { sandbox_id: string; pair_hash: string }

type IdempotencyClaimRow = {
  team_id: string
  key_hash: string
  request_hash: string
  sandbox_id: string
  created_at: number
}

type GivenUpCreateRow = { team_id: string; key_hash: string; created_at: number }

export type SandboxMetricRow = {
  sandbox_id: string
  at: number
  cpu_count: number
  cpu_used_pct: number
  memory_used_bytes: number
  memory_cache_bytes: number
  memory_total_bytes: number
  disk_used_bytes: number
  disk_total_bytes: number
  /** Null if the sandbox has no GPU, or if the GPU's use is unknown. */
  gpu_busy_pct: number | null
  gpu_memory_used_bytes: number | null
  gpu_memory_total_bytes: number | null
}

export type BuildCacheRow = {
  /** The Warren whose disk has the snapshot; empty in rows that wait to be adopted. */
  node_id: string
  team_id: string
  key: string
  saved_name: string | null
  layers: Json | null
  root_folder: string | null
  env_vars: Json
  user_name: string
  workdir: string
  created_at: number
  last_used_at: number
}

export type SecretRow = {
  id: string
  team_id: string
  name: string
  current_version: number
  metadata: Json
  created_at: number
  updated_at: number
}

export type SecretVersionRow = {
  secret_id: string
  version: number
  key_id: string
  /** The sealed value, never the value itself. */
  sealed: string
  created_at: number
}

export type VolumeRow = {
  id: string
  /** The Warren whose disk has the volume. */
  node_id: string
  team_id: string
  name: string
  state: VolumeState
  size_mb: number
  created_at: number
}

/** A volume whose node was forgotten; its disk may come back. */
export type LostVolumeRow = Omit<VolumeRow, 'state'> & { lost_at: number; found_at: number | null }

/** One row per volume that a sandbox was created with; its options say where it is mounted. */
type SandboxVolumeRow = { sandbox_id: string; volume_id: string }
export type SandboxEventRow = {
  id: string
  team_id: string
  sandbox_id: string
  number: number
  type: EventType
  template_id: string
  build_id: string
  run_id: string
  data: Json
  at: number
}

/** Whether usage has counted the run that ends with the event. */
type CountedEventRow = SandboxEventRow & { is_counted: Generated<Flag> }

export type WebhookRow = {
  id: string
  team_id: string
  name: string
  url: string
  is_enabled: Flag
  /** The types of events that it receives, as a list. */
  events: Json
  secret_key_id: string
  /** The sealed secret, never the secret itself. */
  secret_sealed: string
  failing_since: number | null
  last_error: string | null
  created_at: number
}

export type WebhookDeliveryRow = {
  id: string
  webhook_id: string
  team_id: string
  sandbox_id: string
  /** The number of its event. */
  number: number
  event_id: string
  type: EventType
  /** The body, byte for byte the same at every attempt. */
  body: string
  status: DeliveryStatus
  attempts: number
  created_at: number
  next_at: number
  ended_at: number | null
  last_status: number | null
  last_error: string | null
}

type LeaseRow = {
  name: string
  holder: string
  /** By the clock of the database. */
  until: number
}

export type NodeRow = {
  id: string
  run_id: string
  /** The host:port at which peers reach it. */
  address: string
  status: NodeStatus
  status_changed_at: number
  facts: Json
  load: Json
  /** By the clock of the database. */
  seen_at: number
}

/** An object that a node is about to remove, or may have removed. */
type CondemnedObjectRow = {
  key: string
  /** Empty if the node was forgotten. */
  node_id: string
  at: number
}

/** Values that the nodes of a cluster share: the first node to join wrote them. */
type SharedValueRow = { name: string; value: string }

export type Tables = {
  teams: TeamRow
  api_keys: ApiKeyRow
  access_tokens: AccessTokenRow
  audit_lines: AuditLineRow
  people: PersonRow
  team_members: TeamMemberRow
  sessions: SessionRow
  team_metrics: TeamMetricRow
  templates: TemplateRow
  template_aliases: TemplateAliasRow
  template_builds: TemplateBuildRow
  template_tags: TemplateTagRow
  sandboxes: SandboxRow
  sandbox_metadata: SandboxMetadataRow
  sandbox_counts: SandboxCountRow
  quarantine: QuarantineRow
  idempotency_claims: IdempotencyClaimRow
  given_up_creates: GivenUpCreateRow
  sandbox_metrics: SandboxMetricRow
  build_cache: BuildCacheRow
  secrets: SecretRow
  secret_versions: SecretVersionRow
  volumes: VolumeRow
  lost_volumes: LostVolumeRow
  sandbox_volumes: SandboxVolumeRow
  sandbox_events: CountedEventRow
  usage_days: UsageDayRow
  team_budgets: TeamBudgetRow
  webhooks: WebhookRow
  webhook_deliveries: WebhookDeliveryRow
  leases: LeaseRow
  nodes: NodeRow
  shared_values: SharedValueRow
  condemned_objects: CondemnedObjectRow
}
