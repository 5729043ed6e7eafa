/** `warren expose`: looks at what a public address needs, and says how to start Warren with one. It changes nothing. */
import { lookup } from 'node:dns/promises'
import { type NetworkInterfaceInfo, networkInterfaces } from 'node:os'
import { asksForHelp, parseCommand, takeWords, UsageError } from '../../cli/arguments.ts'
import { shellExports } from '../../cli/env.ts'
import { asJson } from '../../cli/output.ts'
import type { Config } from '../config/config.ts'
import { publicDomain } from '../config/settings.ts'
import { portProblem } from '../doors/port.ts'

const command = 'warren expose'
const usage = `Usage:
  warren expose [--domain DOMAIN] [--dns PROGRAM] [--email ADDRESS]
                [--production] [--json]

Says how to give this Warren an address with TLS, and looks whether names and
ports are ready. It changes nothing.

  --domain DOMAIN  WARREN_DOMAIN unless given; without any, the address is for
                   the LAN, with an authority of your own
  --dns PROGRAM    sets TXT records, for a certificate for all sandboxes;
                   without it, for api.DOMAIN and sandbox.DOMAIN only
  --email ADDRESS  of the account at the authority
  --production     certificates that clients trust, after a try without it`

type ExposeParts = {
  config: Pick<Config, 'domain' | 'dataDir' | 'acmeHttpPort'>
  /** The IPv4 addresses of a name; rejects if it has none. */
  lookUp(name: string): Promise<string[]>
  /** IPv4 addresses of this machine by which others may reach it. */
  addresses: readonly string[]
  /** Why the port cannot be used. */
  portProblem(port: number): Promise<string | undefined>
}

export const exposeOnMachine = (args: readonly string[], config: Config) =>
  exposeCommand(args, {
    config,
    lookUp: async (name) => (await lookup(name, { all: true, family: 4 })).map(({ address }) => address),
    addresses: outerAddresses(networkInterfaces()),
    portProblem: async (port) => (await portProblem('0.0.0.0', port))?.text,
  })

/** Those of networks that others are on: not loopback, and not the links and bridges of sandboxes and containers. */
export function outerAddresses(interfaces: NodeJS.Dict<NetworkInterfaceInfo[]>): string[] {
  return Object.entries(interfaces)
    .filter(([name]) => !/^(w[0-9a-f]{6}\d|docker|br-|veth|virbr)/.test(name))
    .flatMap(([, addresses = []]) => addresses)
    .filter(({ family, internal }) => family === 'IPv4' && !internal)
    .map(({ address }) => address)
}

type Check = { ready: boolean; text: string }

/** The exit code is 1 if something is not ready. */
export async function exposeCommand(
  args: readonly string[],
  parts: ExposeParts,
): Promise<{ text: string; exitCode: 0 | 1 }> {
  if (asksForHelp(args)) return { text: usage, exitCode: 0 }
  const more = { flags: ['production'] }
  const { words, values, flags, json } = parseCommand(args, ['domain', 'dns', 'email'], command, more)
  takeWords(words, [], command)
  const given = values.domain ?? parts.config.domain ?? undefined
  const domain = given === undefined ? undefined : publicDomain.parse(given)?.replace(/:\d+$/, '')
  if (given !== undefined && domain === undefined)
    throw new UsageError(`--domain is '${given}', but must be ${publicDomain.allowed}.`, command)
  const plan = domain === undefined ? onLan(parts) : publicly(domain, values, flags.has('production'))
  const checks = [
    ...(await Promise.all(plan.names.map((name) => checkName(name, parts)))),
    ...(await checkPorts(plan.ports, parts)),
  ]
  const isReady = checks.every(({ ready }) => ready)
  const { settings, steps } = plan
  const text = json ? asJson({ settings, checks }) : described(settings, steps, checks)
  return { text, exitCode: isReady ? 0 : 1 }
}

type Exposure = {
  settings: Record<string, string>
  /** Names that must lead to this machine. */
  names: string[]
  ports: number[]
  /** What to do besides, a line each. */
  steps: string[]
}

function publicly(
  domain: string,
  { dns, email }: { dns?: string; email?: string },
  isProduction: boolean,
): Exposure {
  const settings = {
    WARREN_HOST: '0.0.0.0',
    WARREN_PORT: '443',
    WARREN_DOMAIN: domain,
    WARREN_ACME: isProduction ? 'production' : 'staging',
    ...(email !== undefined && { WARREN_ACME_EMAIL: email }),
    ...(dns !== undefined && { WARREN_ACME_DNS: dns }),
  }
  const steps = [
    ...(isProduction
      ? []
      : [
          'If `bin/warren doctor` then shows a certificate, set WARREN_ACME=production: clients trust that one.',
        ]),
    dns === undefined
      ? 'The certificate is for api and sandbox: getHost() and links to files need --dns, which gets a wildcard.'
      : 'Clients then set E2B_DOMAIN and the key, and nothing else.',
  ]
  const names =
    dns === undefined ? [`api.${domain}`, `sandbox.${domain}`] : [`api.${domain}`, `8000-any.${domain}`]
  return { settings, names, ports: dns === undefined ? [443, 80] : [443], steps }
}

/** Public name servers lead such names, and all below them, to the address in them. */
function onLan({ addresses, config: { dataDir } }: ExposeParts): Exposure {
  const [address = '192.168.1.5'] = addresses
  const domain = `${address.replaceAll('.', '-')}.sslip.io`
  const settings = {
    WARREN_HOST: '0.0.0.0',
    WARREN_PORT: '443',
    WARREN_DOMAIN: domain,
    WARREN_TLS_CERT: `${dataDir}/tls/cert.pem`,
    WARREN_TLS_KEY: `${dataDir}/tls/key.pem`,
  }
  const steps = [
    `Before the start: bin/warren cert --domain ${domain}`,
    `Copy ${dataDir}/tls/ca.pem to the clients: NODE_EXTRA_CA_CERTS and SSL_CERT_FILE name it, curl takes --cacert.`,
    'With a domain of your own (--domain) clients need no file.',
  ]
  return { settings, names: [`api.${domain}`, `8000-any.${domain}`], ports: [443], steps }
}

async function checkName(name: string, { lookUp, addresses }: ExposeParts): Promise<Check> {
  const found = await lookUp(name).catch(() => [])
  if (found.length === 0) {
    return {
      ready: false,
      text: `${name} has no address: make a DNS record, or ask a name server that knows it`,
    }
  }
  const shown = found.join(', ')
  if (found.some((one) => addresses.includes(one)))
    return { ready: true, text: `${name} leads to ${shown}, this machine` }
  // Behind NAT and in clouds, no interface has the public address.
  return {
    ready: true,
    text: `${name} leads to ${shown}: that must pass the ports on to this machine (${addresses.join(', ') || 'no address'})`,
  }
}

async function checkPorts(ports: readonly number[], { portProblem, config }: ExposeParts): Promise<Check[]> {
  const used = ports.map((port) => (port === 80 ? config.acmeHttpPort : port))
  return Promise.all(
    used.map(async (port) => {
      const problem = await portProblem(port)
      return { ready: problem === undefined, text: problem ?? `port ${port} is free` }
    }),
  )
}

function described(
  settings: Record<string, string>,
  steps: readonly string[],
  checks: readonly Check[],
): string {
  const lines = checks.map(({ ready, text }) => `${ready ? 'ok    ' : 'not   '}${text}`)
  return `${lines.join('\n')}

Start Warren with:

${shellExports(settings).replace(/^/gm, '  ')}
  bin/warren start

${steps.join('\n')}
docs/domain-and-tls.md has the rest.`
}
