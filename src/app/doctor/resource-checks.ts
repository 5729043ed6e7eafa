/** Checks disk space, memory, and whether the certificate fits the domain. */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync, statfsSync } from 'node:fs'
import { errorText } from '../../lib/app-error.ts'
import { systemClock } from '../../lib/clock.ts'
import { nearestFolder } from '../../lib/nearest-folder.ts'
import type { Config } from '../config/config.ts'
import { type Finding, fail, ok, warn } from '../setup/finding.ts'
import { type AcmeFiles, type AcmeTrouble, readPair, readTrouble } from '../trust/acme-files.ts'
import {
  type AcmePlan,
  acmePlan,
  endOf,
  isUsable,
  type PemPair,
  temporaryIssuer,
} from '../trust/acme-plan.ts'
import type { MachineCheck } from './machine-check.ts'

const gigabytes = (bytes: number): string => `${(bytes / 1024 ** 3).toFixed(1)} GiB`
const gib = 1024 ** 3

export function judgeDisk(freeBytes: number, folder: string): Finding {
  const text = `${gigabytes(freeBytes)} free for ${folder}`
  const remedy = 'Free disk space, or set WARREN_DATA_DIR to a bigger disk.'
  if (freeBytes < 3 * gib) return fail(`${text}, and the base template alone needs 2 GiB`, remedy)
  return freeBytes < 20 * gib ? warn(`${text}: a few sandboxes can fill that`, remedy) : ok(text)
}

/** `meminfo` is the text of /proc/meminfo. */
export function judgeMemory(meminfo: string, sandboxMB: number): Finding {
  const kilobytes = (name: string) => Number(new RegExp(`^${name}:\\s*(\\d+)`, 'm').exec(meminfo)?.[1] ?? 0)
  const available = kilobytes('MemAvailable') * 1024
  const text = `${gigabytes(available)} of ${gigabytes(kilobytes('MemTotal') * 1024)} available`
  if (available > (sandboxMB + 512) * 1024 ** 2) return ok(text)
  return warn(
    `${text}: less than one sandbox of ${sandboxMB} MiB may use`,
    'End other programs, or lower WARREN_DEFAULT_MEMORY_MB.',
  )
}

function lookAtDisk({ dataDir }: Config): Finding {
  const { bavail, bsize } = statfsSync(nearestFolder(dataDir))
  return judgeDisk(bavail * bsize, dataDir)
}

type TlsTexts = { cert: string; key: string; domain: string }

export function judgeTls({ cert, key, domain }: TlsTexts, now: number): Finding {
  const certificate = new X509Certificate(cert)
  const remedy = `Get a certificate for ${domain} and *.${domain}.`
  if (!certificate.checkPrivateKey(createPrivateKey(key))) {
    return fail('WARREN_TLS_KEY is not the key of WARREN_TLS_CERT', 'Set the two that belong together.')
  }
  if (certificate.validToDate.getTime() < now) return fail(`expired on ${certificate.validTo}`, remedy)
  const uncovered = [`api.${domain}`, `49983-x.${domain}`].filter((name) => !certificate.checkHost(name))
  if (uncovered.length > 0) return fail(`is not for ${uncovered.join(', ')}`, remedy)
  const daysLeft = Math.floor((certificate.validToDate.getTime() - now) / 86_400_000)
  if (daysLeft < 14)
    return warn(`ends in ${daysLeft} days`, 'Renew it: Warren loads the new files automatically.')
  return ok(`for *.${domain}, until ${certificate.validTo}`)
}

async function lookAtTls(config: Config): Promise<Finding> {
  const { tlsCert, tlsKey, domain } = config
  if (tlsCert === null || tlsKey === null || domain === null) return ok('not set: plain HTTP')
  const plan = acmePlan(config)
  try {
    if (plan) return await lookAtAcme(plan, { cert: tlsCert, key: tlsKey })
    const texts = { cert: readFileSync(tlsCert, 'utf8'), key: readFileSync(tlsKey, 'utf8') }
    return judgeTls({ ...texts, domain: domain.split(':')[0]! }, systemClock.now())
  } catch (error) {
    return fail(`cannot be read: ${errorText(error)}`, 'Check WARREN_TLS_CERT and WARREN_TLS_KEY: PEM files.')
  }
}

async function lookAtAcme(plan: AcmePlan, files: AcmeFiles): Promise<Finding> {
  const pair = await readPair(files)
  if (!pair) return ok(`for ${plan.names.join(' and ')}: the server orders it when it runs`)
  return judgeAcme(plan, pair, await readTrouble(files.cert), systemClock.now())
}

export function judgeAcme(
  plan: AcmePlan,
  pair: PemPair,
  trouble: AcmeTrouble | undefined,
  now: number,
): Finding {
  const names = plan.names.join(' and ')
  const isServing = isUsable(pair, plan, now)
  const isOwn = new X509Certificate(pair.cert).issuer.includes(temporaryIssuer)
  const has = isServing && !isOwn ? `until ${new Date(endOf(pair)).toISOString()}` : 'not there yet'
  if (trouble) {
    const text = `for ${names}, ${has}; ${trouble.failures === 1 ? '1 try' : `${trouble.failures} tries`} failed: ${trouble.message}. Next try at ${new Date(trouble.retryAt).toISOString()}`
    const remedy = remedies[plan.challenge]
    return has === 'not there yet' ? fail(text, remedy) : warn(text, remedy)
  }
  if (has === 'not there yet')
    return warn(`for ${names}, ${has}`, 'Wait a minute, and read the log of Warren.')
  return ok(`for ${names}, ${has}`)
}

const remedies = {
  'http-01':
    'Lead api.DOMAIN, sandbox.DOMAIN and port 80 of its address to this machine (WARREN_HOST=0.0.0.0), and try with WARREN_ACME=staging first.',
  'dns-01':
    'Run the program of WARREN_ACME_DNS by hand: PROGRAM add NAME VALUE; the record must then be visible everywhere.',
}

export const resourceChecks: readonly MachineCheck[] = [
  { name: 'disk', look: lookAtDisk },
  {
    name: 'memory',
    look: (config) => judgeMemory(readFileSync('/proc/meminfo', 'utf8'), config.defaultMemoryMB),
  },
  { name: 'certificate', look: lookAtTls },
]
