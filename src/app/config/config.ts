/**
 * Reads the settings of the schema once from the environment, checked and frozen. Besides the variables of
 * clients, this is the only file that reads process.env; `warren config` and docs/settings.md come from the same schema.
 */
import { join } from 'node:path'
import { AppError } from '../../lib/app-error.ts'
import { schema } from './setting-schema.ts'
import { type Topic, topicOf } from './setting-topics.ts'
import type { Setting } from './settings.ts'
import { checkSignIn } from './sign-in-settings.ts'

type Schema = typeof schema
type ValueOf<S> = S extends Setting<infer T> ? T : never
export type Config = Readonly<{ [Key in keyof Schema]: ValueOf<Schema[Key]> }>

const settings: readonly Setting<unknown>[] = Object.values(schema)

/** For the test runner and its tests; the server ignores them, and they must not stop it. */
const testPrefix = 'WARREN_TEST_'

export function loadConfig(env: Record<string, string | undefined> = process.env): Config {
  refuseUnknown(env)
  const config = Object.fromEntries(Object.entries(schema).map(([key, one]) => [key, readSetting(one, env)]))
  const checked = withPublicPort(withAcmeFiles(checkTogether(config as Config)))
  checkSignIn(checked)
  return Object.freeze(checked)
}

/** Files with authorities that programs on this machine are told to trust. */
export function trustFiles(env: Record<string, string | undefined> = process.env): string[] {
  return [env.SSL_CERT_FILE, env.NODE_EXTRA_CA_CERTS].filter(
    (path) => path !== undefined && path !== '',
  ) as string[]
}

/** What systemd calls the first descriptor that it hands over. */
const firstInherited = 3

/** Descriptors of the ports that systemd opened for this process and keeps open while it restarts. */
export function inheritedSockets(
  env: Record<string, string | undefined> = process.env,
  pid = process.pid,
): { door: number | undefined; peers: number | undefined } {
  // Children inherit the variables and not the descriptors.
  const count = env.LISTEN_PID === String(pid) ? Number(env.LISTEN_FDS ?? 0) : 0
  return {
    door: count >= 1 ? firstInherited : undefined,
    peers: count >= 2 ? firstInherited + 1 : undefined,
  }
}

/**
 * Reads the standard variables of OpenTelemetry, which belong to its library and are not settings of Warren.
 */
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
  // In a text that is not a URL, the end of the password is unknown, so nothing after it is shown.
  const shown = text.replace(/((?:=|:\/\/)[^:/@,]*):.*@/s, '$1:***@')
  const described = one.isSecret ? `The value of ${one.name}` : `${one.name} is '${shown}', but`
  throw new AppError('invalid_argument', `${described} must be ${one.allowed}.`)
}

/** What to do instead, for those who still set them. */
const removedSettings: Record<string, string> = {
  WARREN_STARTS_PER_CPU: 'Remove it: two sandboxes per CPU start at once, because more finish no sooner.',
  WARREN_POOL_SIZE: 'Remove it: Warren keeps eight network slots prepared.',
  WARREN_REGISTRY_CA:
    'Set WARREN_EXTRA_CA to a file with these certificates: registries trust them, and so do builds and sandboxes.',
}

function refuseUnknown(env: Record<string, string | undefined>): void {
  const known = settings.map((one) => one.name)
  for (const name of Object.keys(env)) {
    if (!name.startsWith('WARREN_') || name.startsWith(testPrefix) || known.includes(name)) continue
    const removed = removedSettings[name]
    if (removed) throw new AppError('invalid_argument', `There is no setting ${name} any more. ${removed}`)
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
  if (config.acme !== null && config.domain === null) {
    throw refuse('WARREN_ACME needs WARREN_DOMAIN: the domain that the certificate is for.')
  }
  if (config.acme !== null && config.tlsCert !== null) {
    throw refuse(
      'WARREN_ACME gets a certificate itself: unset WARREN_TLS_CERT and WARREN_TLS_KEY, or WARREN_ACME.',
    )
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
  for (const [noun, usual, max] of sizes) {
    if (usual > max) {
      throw refuse(
        `WARREN_DEFAULT_${noun} (${usual}) is more than WARREN_MAX_${noun} (${max}): raise one, or lower the other.`,
      )
    }
  }
  return config
}

/** A certificate by ACME lies in the data folder, and is used from there like one of the operator. */
function withAcmeFiles(config: Config): Config {
  if (config.acme === null) return config
  const folder = join(config.dataDir, 'acme')
  return { ...config, tlsCert: join(folder, 'cert.pem'), tlsKey: join(folder, 'key.pem') }
}

/** Clients use 443 unless the domain names a port; if Warren itself serves TLS, it knows the port. */
function withPublicPort(config: Config): Config {
  const implied = config.tlsCert === null || config.port === 443 || config.domain?.includes(':')
  return implied ? config : { ...config, domain: `${config.domain}:${config.port}` }
}

const byDistance = (a: { far: number }, b: { far: number }) => a.far - b.far

/** Number of letters to insert, remove or replace to turn one text into the other. */
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

/** The settings in this environment, as given: they may contain passwords. */
export function givenSettings(env: Record<string, string | undefined> = process.env): Record<string, string> {
  const given = settings.flatMap(({ name }) => (env[name]?.trim() ? [[name, env[name].trim()] as const] : []))
  return Object.fromEntries(given)
}

export type ShownSetting = {
  name: string
  topic: Topic
  value: string
  from: 'environment' | 'default'
  unit: string
  allowed: string
  default: string
  help: string
}

/** Every setting as a person wants to see it; passwords in the database URL and of mirrors are hidden. */
export function showSettings(env: Record<string, string | undefined> = process.env): ShownSetting[] {
  return Object.entries(schema).map(([key, one]) => {
    const { name, default: fallback, unit, allowed, help, isSecret }: Setting<unknown> = one
    const topic = topicOf[key as keyof typeof schema]
    const given = isSecret && env[name]?.trim() ? '***' : env[name]?.trim()
    const value = (given || fallback)
      .replace(/(:\/\/[^:/@]*):[^@]*@/, '$1:***@')
      .replace(/(=[^:/@,]*):[^,]*@/g, '$1:***@')
    return {
      name,
      topic,
      value,
      from: given ? 'environment' : 'default',
      unit,
      allowed,
      default: fallback,
      help,
    }
  })
}
