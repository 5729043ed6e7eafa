/**
 * The stores of the domain. Every method is one atomic step; none knows HTTP or a driver. A step that changes
 * something has one of three outcomes. Done or not done: the method resolves, or rejects with what the step
 * found (`already_exists`, `not_found`, …). Unknown: it rejects with anything else, with `unavailable` if the
 * failure may pass (lost connection, busy database, deadlock). A caller that needs to know then reads back
 * what identifies this very step; an unknown outcome never counts as a step that did not happen.
 */

import type { AuditStore } from '../core/audit/audit-store.ts'
import type { NodeStore } from '../core/cluster/node-store.ts'
import type { OwnerStore } from '../core/cluster/owner-store.ts'
import type { EventStore } from '../core/event/event-store.ts'
import type { RemoteBytesStore } from '../core/object-storage/remote-bytes-store.ts'
import type { MemberStore, PersonStore } from '../core/person/person-store.ts'
import type { LeaseStore } from '../core/ports/lease-store.ts'
import type { SharedValueStore } from '../core/ports/shared-value-store.ts'
import type { MetricStore } from '../core/sandbox/monitoring/metric-store.ts'
import type { SandboxStore } from '../core/sandbox/row/sandbox-store.ts'
import type { QuarantineStore } from '../core/sandbox/snapshots/quarantine-store.ts'
import type { SecretStore } from '../core/secret/secret-store.ts'
import type { SessionStore } from '../core/sign-in/session-store.ts'
import type { AccessTokenStore, KeyStore, TeamMetricStore, TeamStore } from '../core/team/team-store.ts'
import type { BuildCacheStore } from '../core/template/build-cache-store.ts'
import type { TemplateStore } from '../core/template/template-store.ts'
import type { UsageStore } from '../core/usage/usage-store.ts'
import type { LostVolumeStore } from '../core/volume/lost-volume-store.ts'
import type { VolumeStore } from '../core/volume/volume-store.ts'
import type { DeliveryStore, WebhookStore } from '../core/webhook/webhook-store.ts'

export type Stores = {
  teams: TeamStore
  keys: KeyStore
  accessTokens: AccessTokenStore
  audit: AuditStore
  people: PersonStore
  members: MemberStore
  sessions: SessionStore
  teamMetrics: TeamMetricStore
  templates: TemplateStore
  sandboxes: SandboxStore
  quarantine: QuarantineStore
  metrics: MetricStore
  buildCache: BuildCacheStore
  secrets: SecretStore
  volumes: VolumeStore
  lostVolumes: LostVolumeStore
  events: EventStore
  usage: UsageStore
  webhooks: WebhookStore
  deliveries: DeliveryStore
  leases: LeaseStore
  sharedValues: SharedValueStore
  remoteBytes: RemoteBytesStore
  nodes: NodeStore
  owners: OwnerStore
  close(): Promise<void>
}
