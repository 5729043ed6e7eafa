/**
 * Every setting of Warren, in one schema: read once from the environment, checked, frozen. This is the only
 * file that reads process.env; `warren config` and docs/settings.md come from the same schema.
 */
import { AppError } from '../lib/app-error.ts'
import * as kind from './settings.ts'
import { type Setting, setting } from './settings.ts'

const schema = {
  host: setting('WARREN_HOST', '127.0.0.1', 'Address to listen on.', kind.address),
  port: setting('WARREN_PORT', '3000', 'The one port that listens.', kind.wholeNumber(1, 65535)),
  dataDir: setting('WARREN_DATA_DIR', '/var/lib/warren', 'Where everything is kept.', kind.folder),
  cacheDir: setting(
    'WARREN_CACHE_DIR',
    '/var/cache/warren',
    'Built and downloaded things that several Warrens share; may be deleted at any time.',
    kind.folder,
  ),
  databaseUrl: setting(
    'WARREN_DATABASE_URL',
    '',
    'PostgreSQL to use; unset: SQLite in the data folder.',
    kind.optional(kind.databaseUrl),
  ),
  peerAddress: setting(
    'WARREN_PEER_ADDRESS',
    '',
    'Where the other Warrens of a cluster reach this one; unset: there are no others. Needs PostgreSQL.',
    kind.optional(kind.hostAndPort),
  ),
  peerListen: setting(
    'WARREN_PEER_LISTEN',
    '',
    'Address and port to listen on for those; unset: the port of WARREN_PEER_ADDRESS on all addresses.',
    kind.optional(kind.hostAndPort),
  ),
  secretsDir: setting(
    'WARREN_SECRETS_DIR',
    '',
    'Folder with secrets.json and secret-key.json, which all Warrens of a cluster share; unset: the data folder.',
    kind.optional(kind.folder),
  ),
  domain: setting(
    'WARREN_DOMAIN',
    '',
    'Domain under which clients reach api.DOMAIN and *.DOMAIN (wildcard DNS).',
    kind.optional(kind.publicDomain),
  ),
  tlsCert: setting(
    'WARREN_TLS_CERT',
    '',
    'PEM file with the certificate chain for DOMAIN and *.DOMAIN.',
    kind.optional(kind.folder),
  ),
  tlsKey: setting(
    'WARREN_TLS_KEY',
    '',
    'PEM file with the private key of the certificate.',
    kind.optional(kind.folder),
  ),
  isolation: setting(
    'WARREN_ISOLATION',
    'auto',
    'How sandboxes are isolated; auto takes gVisor where it works, else containers.',
    kind.oneOf('auto', 'gvisor', 'container'),
  ),
  gvisorPlatform: setting(
    'WARREN_GVISOR_PLATFORM',
    'auto',
    'How gVisor catches system calls; auto measures what this machine has and takes the cheapest.',
    kind.oneOf('auto', 'systrap', 'kvm', 'ptrace'),
  ),
  subnet: setting(
    'WARREN_SUBNET',
    '10.213.0.0/16',
    'Network for sandboxes; each Warren on a machine needs its own.',
    kind.subnet,
  ),
  dnsServers: setting(
    'WARREN_DNS_SERVERS',
    '8.8.8.8,1.1.1.1',
    'Name servers that sandboxes ask.',
    kind.addressList,
  ),
  allowPrivateEgress: setting(
    'WARREN_ALLOW_PRIVATE_EGRESS',
    '',
    'Networks that sandboxes may reach although they are private or this host is on them, in CIDR form.',
    kind.networkList,
  ),
  poolSize: setting(
    'WARREN_POOL_SIZE',
    '8',
    'Network slots kept prepared, so that a create need not wait for one.',
    kind.wholeNumber(0, 1000, 'slots'),
  ),
  warmSandboxes: setting(
    'WARREN_WARM_SANDBOXES',
    '2',
    'At least so many sandboxes of each template in use wait in the warm pool, so that a create is immediate; 0: no pool.',
    kind.wholeNumber(0, 100, 'sandboxes'),
  ),
  warmMemoryMB: setting(
    'WARREN_WARM_MEMORY_MB',
    '',
    'All sandboxes of the warm pool together may be promised so much memory; unset: half of the machine’s.',
    kind.optional(kind.wholeNumber(0, 1_073_741_824, 'MiB')),
  ),
  baseImage: setting(
    'WARREN_BASE_IMAGE',
    'debootstrap:bookworm',
    'What the base template is made from; a folder is copied, and again when it has changed.',
    kind.baseImage,
  ),
  registryMirrors: setting(
    'WARREN_REGISTRY_MIRRORS',
    '',
    'Where images come from instead: NAME=[USER:PASSWORD@]HOST/PREFIX or NAME=folder:/path, separated by commas; * is any name.',
    kind.pairs,
  ),
  privateRegistries: setting(
    'WARREN_PRIVATE_REGISTRIES',
    '',
    'Registries that may be at addresses of internal networks: hosts, host:port, or *.',
    kind.list,
  ),
  insecureRegistries: setting(
    'WARREN_INSECURE_REGISTRIES',
    '',
    'Registries that are spoken to without TLS: hosts or host:port.',
    kind.list,
  ),
  registryCA: setting(
    'WARREN_REGISTRY_CA',
    '',
    'PEM file with further certificate authorities for registries.',
    kind.optional(kind.folder),
  ),
  extraCA: setting(
    'WARREN_EXTRA_CA',
    '',
    'PEM file with further certificate authorities that every build, every sandbox and Warren itself trust.',
    kind.optional(kind.folder),
  ),
  maxUploadMB: setting(
    'WARREN_MAX_UPLOAD_MB',
    '2048',
    'The most that the files of one COPY may take, packed and unpacked.',
    kind.wholeNumber(1, 1_048_576, 'MiB'),
  ),
  minFreeDiskMB: setting(
    'WARREN_MIN_FREE_DISK_MB',
    '2048',
    'Below this the build cache is pruned, oldest use first; where that does not help, new builds are refused.',
    kind.wholeNumber(0, 1_073_741_824, 'MiB'),
  ),
  requestsPerMinute: setting(
    'WARREN_REQUESTS_PER_MINUTE',
    '12000',
    'So many requests to the API may be made with one key or access token; more get 429. 0: any number.',
    kind.wholeNumber(0, 1_000_000_000, 'requests'),
  ),
  allowInsecureSandboxes: setting(
    'WARREN_ALLOW_INSECURE_SANDBOXES',
    'no',
    'Whether a client may create a sandbox with `secure: false`, which whoever knows its id may use without a token.',
    kind.oneOf('no', 'yes'),
  ),
  memoryOvercommit: setting(
    'WARREN_MEMORY_OVERCOMMIT',
    '16',
    'All sandboxes together may be promised so many times the memory of the machine; most use little of theirs.',
    kind.wholeNumber(1, 1000, 'times'),
  ),
  cpuOvercommit: setting(
    'WARREN_CPU_OVERCOMMIT',
    '200',
    'All sandboxes together may be promised so many times the CPUs of the machine.',
    kind.wholeNumber(1, 10_000, 'times'),
  ),
  minFreeMemoryMB: setting(
    'WARREN_MIN_FREE_MEMORY_MB',
    '512',
    'No sandbox starts while less memory than this is available on the machine.',
    kind.wholeNumber(0, 1_073_741_824, 'MiB'),
  ),
  startsPerCPU: setting(
    'WARREN_STARTS_PER_CPU',
    '4',
    'So many sandboxes for each CPU of the machine start or resume at the same time; the others wait their turn.',
    kind.wholeNumber(1, 1000, 'starts'),
  ),
  startWaitSeconds: setting(
    'WARREN_START_WAIT_SECONDS',
    '45',
    'A start that waited so long for its turn, for memory, CPU or disk is rejected with 503 and Retry-After.',
    kind.wholeNumber(1, 3600, 's'),
  ),
  quarantineDays: setting(
    'WARREN_QUARANTINE_DAYS',
    '7',
    'A snapshot that no sandbox or template owns is kept for so long before it is deleted; see `warren recover`.',
    kind.wholeNumber(1, 3650, 'days'),
  ),
  defaultCPU: setting(
    'WARREN_DEFAULT_CPU',
    '2',
    'CPUs of a sandbox whose template says nothing.',
    kind.wholeNumber(1, 1024, 'CPUs'),
  ),
  defaultMemoryMB: setting(
    'WARREN_DEFAULT_MEMORY_MB',
    '1024',
    'Memory of a sandbox whose template says nothing.',
    kind.wholeNumber(128, 4_194_304, 'MiB'),
  ),
  defaultDiskMB: setting(
    'WARREN_DEFAULT_DISK_MB',
    '10240',
    'How much a sandbox may write.',
    kind.wholeNumber(64, 16_777_216, 'MiB'),
  ),
  maxCPU: setting(
    'WARREN_MAX_CPU',
    '8',
    'The most CPUs that one sandbox may ask for.',
    kind.wholeNumber(1, 1024, 'CPUs'),
  ),
  maxMemoryMB: setting(
    'WARREN_MAX_MEMORY_MB',
    '8192',
    'The most memory that one sandbox may ask for.',
    kind.wholeNumber(128, 4_194_304, 'MiB'),
  ),
  maxDiskMB: setting(
    'WARREN_MAX_DISK_MB',
    '25600',
    'The most disk that one sandbox may ask for.',
    kind.wholeNumber(64, 16_777_216, 'MiB'),
  ),
  volumesPerTeam: setting(
    'WARREN_VOLUMES_PER_TEAM',
    '100',
    'How many volumes a team may have.',
    kind.wholeNumber(0, 100_000, 'volumes'),
  ),
  volumeMB: setting(
    'WARREN_VOLUME_MB',
    '10240',
    'How much a volume can hold; volumes that are there keep their size.',
    kind.wholeNumber(16, 16_777_216, 'MiB'),
  ),
  connectionsPerSandbox: setting(
    'WARREN_CONNECTIONS_PER_SANDBOX',
    '1000',
    "Requests and WebSockets that may be open to one sandbox's ports at once, and as many again to its agent; more get 429.",
    kind.wholeNumber(1, 100_000, 'connections'),
  ),
  logsPerSandboxMB: setting(
    'WARREN_LOGS_PER_SANDBOX_MB',
    '16',
    "How much of a sandbox's log is kept; the oldest part goes first.",
    kind.wholeNumber(1, 4096, 'MiB'),
  ),
  logsTotalMB: setting(
    'WARREN_LOGS_TOTAL_MB',
    '2048',
    'How much is kept of all sandbox logs; the longest silent sandboxes go first.',
    kind.wholeNumber(16, 1_048_576, 'MiB'),
  ),
  accessLog: setting(
    'WARREN_ACCESS_LOG',
    'off',
    'For which requests to the API and to sandboxes the log has a line: none, those answered with 400 and above, or all.',
    kind.oneOf('off', 'errors', 'all'),
  ),
  logLevel: setting(
    'WARREN_LOG_LEVEL',
    'info',
    'What goes to the log; debug also shows stack traces.',
    kind.oneOf('trace', 'debug', 'info', 'warn', 'error', 'silent'),
  ),
} as const

type Schema = typeof schema
type ValueOf<S> = S extends Setting<infer T> ? T : never
export type Config = Readonly<{ [Key in keyof Schema]: ValueOf<Schema[Key]> }>

const settings: readonly Setting<unknown>[] = Object.values(schema)

/** For the test runner and its tests; the server does not read them, and they must not stop it. */
const testPrefix = 'WARREN_TEST_'

export function loadConfig(env: Record<string, string | undefined> = process.env): Config {
  refuseUnknown(env)
  const config = Object.fromEntries(Object.entries(schema).map(([key, one]) => [key, readSetting(one, env)]))
  return Object.freeze(withPublicPort(checkTogether(config as Config)))
}

/** The level alone, for reporting a failure to load the rest. */
export function wantsStacks(env: Record<string, string | undefined> = process.env): boolean {
  return ['debug', 'trace'].includes(env[schema.logLevel.name] ?? '')
}

/** The variables that tell a client of Warren, the `warren` command included, where the server is and which key to use. */
export function clientVariables(env: Record<string, string | undefined> = process.env) {
  const { E2B_API_KEY: apiKey, E2B_API_URL: apiUrl, E2B_DOMAIN: domain } = env
  return { apiKey: apiKey || undefined, apiUrl: apiUrl || (domain ? `https://api.${domain}` : undefined) }
}

/** By the standard variables of OpenTelemetry, which are read by its library and are no settings of Warren's. */
export function wantsTraces(env: Record<string, string | undefined> = process.env): boolean {
  if (env.OTEL_SDK_DISABLED === 'true' || env.OTEL_TRACES_EXPORTER === 'none') return false
  return Boolean(env.OTEL_EXPORTER_OTLP_ENDPOINT || env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT)
}

export function traceProtocol(env: Record<string, string | undefined> = process.env): string {
  return env.OTEL_EXPORTER_OTLP_TRACES_PROTOCOL || env.OTEL_EXPORTER_OTLP_PROTOCOL || 'http/protobuf'
}

function readSetting(one: Setting<unknown>, env: Record<string, string | undefined>): unknown {
  const text = env[one.name]?.trim() || one.default
  const value = one.parse(text)
  if (value !== undefined) return value
  // Where the password ends cannot be known in a text that is not a URL, so none of it is shown.
  const shown = text.replace(/((?:=|:\/\/)[^:/@,]*):.*@/s, '$1:***@')
  throw new AppError('invalid_argument', `${one.name} is '${shown}', but must be ${one.allowed}.`)
}

function refuseUnknown(env: Record<string, string | undefined>): void {
  const known = settings.map((one) => one.name)
  for (const name of Object.keys(env)) {
    if (!name.startsWith('WARREN_') || name.startsWith(testPrefix) || known.includes(name)) continue
    const nearest = known.map((other) => ({ other, far: editDistance(name, other) })).sort(byDistance)[0]!
    const hint = nearest.far <= 4 ? ` Did you mean ${nearest.other}?` : ''
    throw new AppError(
      'invalid_argument',
      `There is no setting ${name}.${hint} \`warren config\` lists all of them.`,
    )
  }
}

function checkTogether(config: Config): Config {
  const refuse = (message: string) => new AppError('invalid_argument', message)
  if ((config.tlsCert === null) !== (config.tlsKey === null)) {
    throw refuse('WARREN_TLS_CERT and WARREN_TLS_KEY belong together: set both, or none.')
  }
  if (config.tlsCert !== null && config.domain === null) {
    throw refuse('WARREN_TLS_CERT needs WARREN_DOMAIN: the domain that the certificate is for.')
  }
  if (config.peerAddress !== null && config.databaseUrl === null) {
    throw refuse(
      'WARREN_PEER_ADDRESS needs WARREN_DATABASE_URL: the Warrens of a cluster share one PostgreSQL database.',
    )
  }
  if (config.peerListen !== null && config.peerAddress === null) {
    throw refuse('WARREN_PEER_LISTEN needs WARREN_PEER_ADDRESS: the address at which others reach it.')
  }
  const sizes = [
    ['CPU', config.defaultCPU, config.maxCPU],
    ['MEMORY_MB', config.defaultMemoryMB, config.maxMemoryMB],
    ['DISK_MB', config.defaultDiskMB, config.maxDiskMB],
  ] as const
  for (const [noun, usual, most] of sizes) {
    if (usual > most) {
      throw refuse(
        `WARREN_DEFAULT_${noun} (${usual}) is more than WARREN_MAX_${noun} (${most}): raise one, or lower the other.`,
      )
    }
  }
  return config
}

/** Clients take 443 unless the domain names a port; where Warren itself speaks TLS, it knows which. */
function withPublicPort(config: Config): Config {
  const implied = config.tlsCert === null || config.port === 443 || config.domain?.includes(':')
  return implied ? config : { ...config, domain: `${config.domain}:${config.port}` }
}

const byDistance = (a: { far: number }, b: { far: number }) => a.far - b.far

/** How many letters must be put in, taken out or changed to make one text of the other. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)))
    }
    row = next
  }
  return row[b.length]!
}

/** The settings that this environment has, as they were given: they may hold passwords. */
export function givenSettings(env: Record<string, string | undefined> = process.env): Record<string, string> {
  const given = settings.flatMap(({ name }) => (env[name]?.trim() ? [[name, env[name].trim()] as const] : []))
  return Object.fromEntries(given)
}

export type ShownSetting = {
  name: string
  value: string
  from: 'environment' | 'default'
  unit: string
  allowed: string
  default: string
  help: string
}

/** Every setting as a person wants to see it; passwords in the database URL and of mirrors are hidden. */
export function showSettings(env: Record<string, string | undefined> = process.env): ShownSetting[] {
  return settings.map(({ name, default: fallback, unit, allowed, help }) => {
    const given = env[name]?.trim()
    const value = (given || fallback)
      .replace(/(:\/\/[^:/@]*):[^@]*@/, '$1:***@')
      .replace(/(=[^:/@,]*):[^,]*@/g, '$1:***@')
    return { name, value, from: given ? 'environment' : 'default', unit, allowed, default: fallback, help }
  })
}
