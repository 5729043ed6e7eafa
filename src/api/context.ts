/** What every route is made with: the app it adds itself to, and the parts it calls. */
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
import type { LogStore } from '../core/ports/logs.ts'
import type { MetricStore } from '../core/sandbox/monitoring/metric-store.ts'
import type { SandboxTokens } from '../core/sandbox/row/tokens.ts'
import type { SandboxService } from '../core/sandbox/service.ts'
import type { Quarantine } from '../core/sandbox/snapshots/quarantine.ts'
import type { SecretService } from '../core/secret/service.ts'
import type { AccessTokens } from '../core/team/access-tokens.ts'
import type { TeamService } from '../core/team/service.ts'
import type { TeamUsage } from '../core/team/usage.ts'
import type { BuildService } from '../core/template/build-service.ts'
import type { BuildFiles } from '../core/template/builder.ts'
import type { BuiltInTemplates } from '../core/template/built-in-templates.ts'
import type { TemplateCatalog } from '../core/template/catalog.ts'
import type { TemplateRemover } from '../core/template/remover.ts'
import type { TemplateService } from '../core/template/service.ts'
import type { VolumeService } from '../core/volume/service.ts'
import type { WebhookService } from '../core/webhook/service.ts'
import type { Clock } from '../lib/clock.ts'
import type { HttpExchange } from '../lib/http-relay/http-relay.ts'
import type { Log } from '../lib/log.ts'
import type { Authenticator } from './auth.ts'
import type { AnsweredRequest } from './request-id.ts'
import type { Dashboard } from './routes/dashboard/dashboard.ts'

export type ApiParts = {
  sandboxes: SandboxService
  metrics: MetricStore
  logs: LogStore
  catalog: TemplateCatalog
  remover: TemplateRemover
  templates: TemplateService
  builds: BuildService
  builtIns: BuiltInTemplates
  pruner: Pruner
  quarantine: Quarantine
  buildFiles: BuildFiles
  /** How links for uploaded build files are signed, and how much one upload may hold. */
  uploads: { secret: string; maxBytes: number }
  sizes: Record<'cpu' | 'memoryMB' | 'diskMB', { usual: number; most: number }>
  secrets: SecretService
  volumes: VolumeService
  events: EventStore
  webhooks: WebhookService
  clock: Clock
  teams: TeamService
  accessTokens: AccessTokens
  teamRemover: TeamRemover
  usage: TeamUsage
  /** How many requests a team may make in a minute; 0: any number. */
  requestsPerMinute: number
  /** Clients may ask for sandboxes that whoever knows their id may use. */
  allowInsecureSandboxes: boolean
  /** Clients of every team may be older than access tokens. */
  allowOlderClients: boolean
  /** How the server does, and what the doctor finds on its machine. */
  describeMachine(): Promise<MachineReport>
  examineMachine(): Promise<DoctorReport>
  /** Sandboxes are containers because gVisor does not work, not because the operator wants containers. */
  isWeakerThanWanted: boolean
  /** The files of the dashboard, made when they are first needed. */
  openDashboard(): Promise<Dashboard>
  /** Answers a request of the Model Context Protocol for who has the key. */
  answerMcp(apiKey: string, request: IncomingMessage, response: ServerResponse, body: unknown): Promise<void>
  /** A page of the documentation, by what follows /docs/ in its address; `readApi` gives the OpenAPI document. */
  answerDocs(
    path: string,
    readApi: () => object,
  ): Promise<{ status: number; type: string; body: string | Buffer }>
  /** The figures of this process, in the text format of Prometheus. */
  renderMetrics(): Promise<{ contentType: string; text: string }>
  /** Undefined: requests can be served. Else why not, as a sentence that anybody may read. */
  whyNotReady(): Promise<string | undefined>
  /** Called after each answer. */
  onAnswered(answered: AnsweredRequest): void
  tokens: SandboxTokens
  adminToken: string
  /** The domain under which sandboxes are reached, port included where it is not the usual one. */
  domain: string | undefined
  /** The port on which the server listens. */
  port: number
  version: string
  log: Log
  nodes: NodeDirectory
  /** Undefined: this Warren is the only one. */
  cluster?: ApiCluster | undefined
  /** Where other Warrens may share the database of one that is in no cluster. */
  loneNode?: LoneNode | undefined
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
