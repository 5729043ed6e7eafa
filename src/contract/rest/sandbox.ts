/** Sandboxes on the wire: requests, answers, queries. */
import { type Static, Type } from 'typebox'
import {
  bodyOrNone,
  DateTime,
  int64Max,
  optionalOrNull,
  PageLimit,
  PlainText,
  Seconds,
  TextMap,
  VariableMap,
} from './shared.ts'

const proxyAddress = { address: PlainText, username: optionalOrNull(PlainText) }
const proxyTLS = { enabled: Type.Boolean(), serverName: optionalOrNull(PlainText) }
const EgressProxy = Type.Object({
  ...proxyAddress,
  password: optionalOrNull(PlainText),
  tls: optionalOrNull(Type.Object({ ...proxyTLS, caCert: optionalOrNull(PlainText) })),
})
/** The password and the certificate go in and never come out. */
const ShownEgressProxy = Type.Object({ ...proxyAddress, tls: optionalOrNull(Type.Object(proxyTLS)) })

const HeaderRule = Type.Object({
  transform: optionalOrNull(
    Type.Object({
      headers: optionalOrNull(Type.Record(Type.String(), PlainText)),
      allowPlainHttp: optionalOrNull(
        Type.Boolean({ description: 'Also set the headers on requests without TLS; an addition of Warren' }),
      ),
    }),
  ),
})

const egress = {
  allowOut: optionalOrNull(
    Type.Array(PlainText, { description: 'IPv4 addresses, CIDR ranges, domains, *.domain or *' }),
  ),
  denyOut: optionalOrNull(Type.Array(PlainText, { description: 'IPv4 addresses and CIDR ranges' })),
  egressProxy: optionalOrNull(EgressProxy),
  rules: optionalOrNull(Type.Record(Type.String(), Type.Array(HeaderRule))),
  dnsServers: optionalOrNull(Type.Array(PlainText)),
}

export const NetworkConfig = Type.Object({
  ...egress,
  allowPublicTraffic: optionalOrNull(Type.Boolean()),
  maskRequestHost: optionalOrNull(PlainText),
  httpsPorts: optionalOrNull(Type.Array(Type.Integer())),
})

export const ShownNetworkConfig = Type.Object({
  ...NetworkConfig.properties,
  egressProxy: optionalOrNull(ShownEgressProxy),
})

export const NetworkUpdate = Type.Object({
  ...egress,
  allow_internet_access: optionalOrNull(Type.Boolean()),
})

const VolumeMounts = Type.Array(
  Type.Object({
    name: Type.String({ description: 'The name of a volume' }),
    path: PlainText,
  }),
)

export const NewSandbox = Type.Object({
  templateID: Type.String({ minLength: 1, description: '[namespace/]name[:tag] or a template id' }),
  timeout: Type.Optional(Seconds),
  autoPause: Type.Optional(Type.Boolean()),
  autoPauseMemory: Type.Optional(Type.Boolean()),
  autoResume: Type.Optional(Type.Object({ enabled: Type.Boolean() })),
  secure: Type.Optional(
    Type.Boolean({
      description: 'False, where the operator allows it: whoever knows its id may use the sandbox',
    }),
  ),
  allow_internet_access: optionalOrNull(Type.Boolean()),
  network: optionalOrNull(NetworkConfig),
  metadata: optionalOrNull(TextMap),
  envVars: optionalOrNull(VariableMap),
  mcp: optionalOrNull(Type.Record(Type.String(), Type.Unknown())),
  volumeMounts: optionalOrNull(VolumeMounts),
  iam: optionalOrNull(Type.Object({ tokens: Type.Optional(Type.Record(Type.String(), Type.Unknown())) })),
})
export type NewSandbox = Static<typeof NewSandbox>

export const Sandbox = Type.Object({
  templateID: Type.String(),
  sandboxID: Type.String(),
  clientID: Type.String({ description: 'Deprecated' }),
  envdVersion: Type.String(),
  alias: Type.Optional(Type.String()),
  envdAccessToken: Type.Optional(Type.String()),
  trafficAccessToken: optionalOrNull(Type.String()),
  domain: optionalOrNull(Type.String()),
})
export type Sandbox = Static<typeof Sandbox>

export const ListedSandbox = Type.Object({
  templateID: Type.String(),
  sandboxID: Type.String(),
  clientID: Type.String({ description: 'Deprecated' }),
  startedAt: DateTime,
  endAt: DateTime,
  cpuCount: Type.Integer(),
  memoryMB: Type.Integer(),
  diskSizeMB: Type.Integer(),
  gpuCount: Type.Optional(Type.Integer({ description: 'An addition of Warren; missing: none' })),
  state: Type.Union([Type.Literal('running'), Type.Literal('paused')]),
  envdVersion: Type.String(),
  alias: Type.Optional(Type.String()),
  metadata: Type.Optional(TextMap),
  volumeMounts: Type.Optional(VolumeMounts),
  envdUnresponsiveAtPause: Type.Optional(
    Type.Boolean({ description: 'True when the agent did not answer as its memory was kept' }),
  ),
})
export type ListedSandbox = Static<typeof ListedSandbox>

export const SandboxDetail = Type.Object({
  ...ListedSandbox.properties,
  envdAccessToken: Type.Optional(Type.String()),
  allowInternetAccess: optionalOrNull(Type.Boolean()),
  domain: optionalOrNull(Type.String()),
  network: Type.Optional(ShownNetworkConfig),
  pauseMode: Type.Optional(
    Type.Union([Type.Literal('full'), Type.Literal('filesystem')], {
      description: 'What a paused sandbox kept: memory and files, or its files alone',
    }),
  ),
  timeLeft: Type.Optional(
    Type.Integer({
      description: 'What a paused sandbox had left of its timeout, in seconds; an addition of Warren',
    }),
  ),
  lifecycle: Type.Optional(
    Type.Object({
      autoResume: Type.Boolean(),
      onTimeout: Type.Union([Type.Literal('kill'), Type.Literal('pause')]),
    }),
  ),
})
export type SandboxDetail = Static<typeof SandboxDetail>

export const SandboxMetric = Type.Object({
  timestamp: DateTime,
  timestampUnix: Type.Integer(),
  cpuCount: Type.Integer(),
  cpuUsedPct: Type.Number({ description: 'Of all its CPUs together' }),
  memUsed: Type.Integer({ description: 'Bytes, like the following' }),
  memTotal: Type.Integer(),
  memCache: Type.Integer(),
  diskUsed: Type.Integer(),
  diskTotal: Type.Integer(),
  gpuUsedPct: Type.Optional(Type.Number({ description: 'Like the following an addition of Warren' })),
  gpuMemUsed: Type.Optional(Type.Integer()),
  gpuMemTotal: Type.Optional(Type.Integer()),
})
export type SandboxMetric = Static<typeof SandboxMetric>

const UnixSeconds = Type.Integer({ minimum: 0, maximum: int64Max })
export const MetricsQuery = Type.Object({
  start: Type.Optional(UnixSeconds),
  end: Type.Optional(UnixSeconds),
})
export const ManyMetricsQuery = Type.Object({
  sandbox_ids: Type.Union([Type.String(), Type.Array(Type.String())]),
})
export const ManyMetrics = Type.Object({ sandboxes: Type.Record(Type.String(), SandboxMetric) })

export const SandboxPath = Type.Object({ sandboxID: Type.String() })

export const ListQuery = Type.Object({
  metadata: Type.Optional(Type.String({ description: 'key=value pairs joined by &, each part URL encoded' })),
  state: Type.Optional(
    Type.Union([Type.String(), Type.Array(Type.String())], { description: 'running, paused, or both' }),
  ),
  order: Type.Optional(Type.String({ description: 'asc or desc, by start time' })),
  startedAfter: Type.Optional(DateTime),
  template: Type.Optional(Type.String({ description: 'A template id or name, without a tag' })),
  nextToken: Type.Optional(Type.String()),
  limit: Type.Optional(PageLimit),
})
export type ListQuery = Static<typeof ListQuery>

export const RunningQuery = Type.Object({ metadata: ListQuery.properties.metadata })

export const ConnectV1 = Type.Object({ timeout: Seconds, memory: Type.Optional(Type.Boolean()) })
export const ConnectV2 = bodyOrNone(
  Type.Object({ timeout: Type.Optional(Seconds), memory: Type.Optional(Type.Boolean()) }),
)
export const SetTimeout = Type.Object({ timeout: Seconds })
export const Refresh = bodyOrNone(
  Type.Object({ duration: Type.Optional(Type.Integer({ minimum: 0, maximum: 3600 })) }),
)
