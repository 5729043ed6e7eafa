/** The parts that every route gets: the app that it adds itself to, and the services that it calls. */
import type { IncomingMessage, ServerResponse } from 'node:http'

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type {
  FastifyBaseLogger,
  FastifyInstance,
  RawReplyDefaultExpression,
  RawRequestDefaultExpression,
  RawServerDefault,
} from 'fastify'
import type { DoctorReport, MachineReport } from '../contract/rest/machine.ts'
import type { NodeShares } from '../contract/rest/shares.ts'
import type { AuditStore } from '../core/audit/audit-store.ts'
import type { AuditTrail } from '../core/audit/audit-trail.ts'
import type { BuildPlacer } from '../core/cluster/build-placer.ts'
import type { EveryNode } from '../core/cluster/every-node.ts'
import type { Forwarder } from '../core/cluster/forwarder.ts'
import type { LoneNode } from '../core/cluster/lone-node.ts'
import type { NodeDirectory } from '../core/cluster/node-directory.ts'
import type { Placer } from '../core/cluster/placer.ts'
import type { TeamRemover } from '../core/cluster/team-remover.ts'
import type { VolumePlacer } from '../core/cluster/volume-placer.ts'
import type { Pruner } from '../core/disk-space/pruner.ts'
import type { EventStore } from '../core/event/event-store.ts'
import type { Members } from '../core/person/members.ts'
import type { PersonStore } from '../core/person/person-store.ts'
import type { LogStore } from '../core/ports/logs.ts'
import type { MetricStore } from '../core/sandbox/monitoring/metric-store.ts'
import type { SandboxTokens } from '../core/sandbox/row/tokens.ts'
import type { SandboxService } from '../core/sandbox/service.ts'
import type { Quarantine } from '../core/sandbox/snapshots/quarantine.ts'
import type { SecretService } from '../core/secret/service.ts'
import type { SessionService } from '../core/sign-in/sessions.ts'
import type { SignIn } from '../core/sign-in/sign-in.ts'
import type { AccessTokens } from '../core/team/access-tokens.ts'
import type { TeamService } from '../core/team/service.ts'
import type { TeamUsage } from '../core/team/usage.ts'
import type { BuildService } from '../core/template/build-service.ts'
import type { BuildFiles } from '../core/template/builder.ts'
import type { BuiltInTemplates } from '../core/template/built-in-templates.ts'
import type { TemplateCatalog } from '../core/template/catalog.ts'
import type { OnDemandTemplates } from '../core/template/on-demand-templates.ts'
import type { TemplateRemover } from '../core/template/remover.ts'
import type { TemplateService } from '../core/template/service.ts'
import type { BudgetService } from '../core/usage/budget-service.ts'
import type { UsageCounter } from '../core/usage/usage-counter.ts'
import type { VolumeService } from '../core/volume/service.ts'
import type { WebhookService } from '../core/webhook/service.ts'
import type { Clock } from '../lib/clock.ts'
import type { HttpExchange } from '../lib/http-relay/http-relay.ts'
import type { Log } from '../lib/log.ts'
import type { Authenticator } from './auth.ts'
import type { AnsweredRequest } from './request-id.ts'
import type { Dashboard, WeakerIsolation } from './routes/dashboard/dashboard.ts'
import type { SessionCookies } from './session-cookie.ts'

export type ApiParts = {
  sandboxes: SandboxService
  members: Members
  audit: AuditTrail
  auditLines: AuditStore
  metrics: MetricStore
  logs: LogStore
  catalog: TemplateCatalog
  remover: TemplateRemover
  templates: TemplateService
  builds: BuildService
  builtIns: BuiltInTemplates
  onDemand: OnDemandTemplates
  pruner: Pruner
  quarantine: Quarantine
  buildFiles: BuildFiles
  /** The secret that signs links for uploads of build files, and the maximum size of an upload. */
  uploads: { secret: string; maxBytes: number }
  sizes: Record<'cpu' | 'memoryMB' | 'diskMB', { usual: number; max: number }>
  secrets: SecretService
  volumes: VolumeService
  events: EventStore
  webhooks: WebhookService
  clock: Clock
  teams: TeamService
  accessTokens: AccessTokens
  people: PersonStore
  /** Set if people sign in with a provider. */
  signIn?: ApiSignIn | undefined
  teamRemover: TeamRemover
  usage: TeamUsage
  usageCounter: Pick<UsageCounter, 'read'>
  budgets: BudgetService
  /** Maximum number of requests of a team in a minute; 0: no limit. */
  requestsPerMinute: number
  /** Whether clients may create sandboxes with `secure: false`, which anybody who knows the id may use. */
  allowInsecureSandboxes: boolean
  /** Whether clients of every team may be older than access tokens. */
  allowOlderClients: boolean
  /** The state of the server. `examineMachine` returns the findings of the doctor. */
  describeMachine(): Promise<MachineReport>
  examineMachine(): Promise<DoctorReport>
  /** What teams use of this machine, and what its guards did. */
  describeShares(): Promise<NodeShares>
  /** Set if a stronger isolation does not work and the operator did not choose the weaker one. */
  weakerIsolation?: WeakerIsolation | undefined
  /** Returns the files of the dashboard, and bundles them on the first call. */
  openDashboard(): Promise<Dashboard>
  /** Answers a request of the Model Context Protocol on behalf of the team that has the key. */
  answerMcp(
    caller: { apiKey: string; teamID: string },
    request: IncomingMessage,
    response: ServerResponse,
    body: unknown,
  ): Promise<void>
  /** Returns a page of the documentation; `path` follows /docs/ in its URL. `readApi` returns the OpenAPI document. */
  answerDocs(
    path: string,
    readApi: () => object,
  ): Promise<{ status: number; type: string; body: string | Buffer }>
  /** Returns the metrics of this process in the text format of Prometheus. */
  renderMetrics(): Promise<{ contentType: string; text: string }>
  health: {
    /** Why this process serves no requests, as a sentence that clients may see. Undefined: it does. */
    whyNotServing(): string | undefined
    /**
     * What is wrong with the database, to follow the words "The database". Undefined: it answers. Rejects never; answers
     * after `waitMs` with what the check before found.
     */
    databaseProblem(waitMs?: number): Promise<string | undefined>
  }
  /** Called after each answer. */
  onAnswered(answered: AnsweredRequest): void
  tokens: SandboxTokens
  adminToken: string
  /** Addresses and networks of proxies whose X-Forwarded-For is believed. */
  trustedProxies: readonly string[]
  /** The domain under which clients reach sandboxes, with the port unless it is 443. */
  domain: string | undefined
  /** The port on which the server listens. */
  port: number
  version: string
  log: Log
  nodes: NodeDirectory
  /** Undefined: this Warren is not part of a cluster. */
  cluster?: ApiCluster | undefined
  /** Set if this Warren is in no cluster, but other Warrens may share its database. */
  loneNode?: LoneNode | undefined
}

export type ApiSignIn = {
  service: SignIn
  sessions: SessionService
  cookies: SessionCookies
  /** What the button of the sign-in page calls the provider. */
  label: string
}

export type ApiCluster = {
  nodeID: string
  forwarder: Forwarder<HttpExchange>
  placer: Placer<HttpExchange>
  everyNode: EveryNode<IncomingMessage>
  buildPlacer: BuildPlacer<HttpExchange>
  volumePlacer: VolumePlacer<HttpExchange>
}

export type Api = FastifyInstance<
  RawServerDefault,
  RawRequestDefaultExpression,
  RawReplyDefaultExpression,
  FastifyBaseLogger,
  TypeBoxTypeProvider
>

export type RouteContext = ApiParts & { auth: Authenticator }
