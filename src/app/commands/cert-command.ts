/** `warren cert`: makes this machine's own authority and a certificate for the domain, to try TLS with. */
import { X509Certificate } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join, resolve } from 'node:path'
import { asksForHelp, parseCommand, takeWords, UsageError } from '../../cli/arguments.ts'
import { shellExports } from '../../cli/env.ts'
import { asJson } from '../../cli/output.ts'
import { AppError, errorText } from '../../lib/app-error.ts'
import { type Authority, issueCertificate, makeAuthority } from '../../lib/certificates.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Config } from '../config/config.ts'
import { publicDomain } from '../config/settings.ts'

const command = 'warren cert'
const usage = `Usage:
  warren cert [--domain DOMAIN] [--out FOLDER] [--json]

The default of DOMAIN is WARREN_DOMAIN, that of FOLDER is tls in the data folder. An authority that lies in FOLDER already is
used again, so that who trusts it need not do so anew.`

/** Browsers reject certificates that are valid for more than 398 days. */
const certificateDays = 397

type CertificateSettings = Pick<Config, 'domain' | 'dataDir'>

export async function certCommand(
  args: readonly string[],
  config: CertificateSettings,
  clock: Clock,
): Promise<string> {
  if (asksForHelp(args)) return usage
  const { words, values, json } = parseCommand(args, ['domain', 'out'], command)
  takeWords(words, [], command)
  const given = values.domain ?? config.domain
  if (!given) throw new UsageError('The domain is missing: set WARREN_DOMAIN, or give --domain.', command)
  const domain = publicDomain.parse(given)
  if (domain === undefined)
    throw new UsageError(`--domain is '${given}', but must be ${publicDomain.allowed}.`, command)
  const files = filesIn(resolve(values.out ?? join(config.dataDir, 'tls')))
  const name = domain.replace(/:\d+$/, '')
  await makeFiles(files, name, clock)
  const settings = { WARREN_DOMAIN: domain, WARREN_TLS_CERT: files.certificate, WARREN_TLS_KEY: files.key }
  const trust = { NODE_EXTRA_CA_CERTS: files.authority, SSL_CERT_FILE: files.authority }
  return json ? asJson({ settings, trust }) : instructions(name, settings, trust)
}

type Files = ReturnType<typeof filesIn>

function filesIn(folder: string) {
  return {
    folder,
    authority: join(folder, 'ca.pem'),
    authorityKey: join(folder, 'ca-key.pem'),
    certificate: join(folder, 'cert.pem'),
    key: join(folder, 'key.pem'),
  }
}

async function makeFiles(files: Files, domain: string, clock: Clock): Promise<void> {
  try {
    // Other users' clients on this machine read the authority here.
    await mkdir(files.folder, { recursive: true, mode: 0o755 })
    const authority = (await storedAuthority(files, clock)) ?? (await newAuthority(files, clock))
    const made = issueCertificate(
      authority,
      {
        names: [domain, `*.${domain}`, 'localhost', '*.localhost'],
        addresses: ['127.0.0.1', '::1'],
        days: certificateDays,
      },
      clock,
    )
    await replaceFiles([
      [files.key, made.key, 0o600],
      [files.certificate, made.certificate, 0o644],
    ])
  } catch (error) {
    if (error instanceof AppError) throw error
    throw new AppError('invalid_argument', `Cannot write to ${files.folder}: ${errorText(error)}`, {
      cause: error,
    })
  }
}

/** Only if it outlives the certificates that it signs. */
async function storedAuthority(files: Files, clock: Clock): Promise<Authority | undefined> {
  if (!existsSync(files.authority) || !existsSync(files.authorityKey)) return undefined
  const authority = {
    certificate: await readFile(files.authority, 'utf8'),
    key: await readFile(files.authorityKey, 'utf8'),
  }
  try {
    const ends = new X509Certificate(authority.certificate).validToDate.getTime()
    return ends > clock.now() + certificateDays * 24 * 3_600_000 ? authority : undefined
  } catch {
    throw new AppError(
      'invalid_argument',
      `${files.authority} is not a certificate. Move it and its key away, and run the command again to create new ones.`,
    )
  }
}

async function newAuthority(files: Files, clock: Clock): Promise<Authority> {
  const authority = makeAuthority(`Warren on ${hostname()}`, undefined, clock)
  await replaceFiles([
    [files.authorityKey, authority.key, 0o600],
    [files.authority, authority.certificate, 0o644],
  ])
  return authority
}

/** A reader of one of them sees a complete file, and hardly ever two that do not belong together. */
async function replaceFiles(files: [path: string, text: string, mode: number][]): Promise<void> {
  for (const [path, text, mode] of files) {
    await rm(`${path}.partial`, { force: true })
    await writeFile(`${path}.partial`, text, { mode })
  }
  for (const [path] of files) await rename(`${path}.partial`, path)
}

function instructions(
  domain: string,
  settings: Record<string, string>,
  trust: Record<string, string>,
): string {
  return `A certificate for ${domain} and *.${domain} (also localhost and 127.0.0.1), for ${certificateDays} days.

Start Warren with it (a running Warren that uses these files takes the new ones by itself):

${indented(shellExports(settings))}

Let clients trust it, in JavaScript and in Python:

${indented(shellExports(trust))}

SSL_CERT_FILE takes the place of the authorities that Python knows otherwise. Browsers take ca.pem under their
settings; curl takes it with --cacert. ${domain} and every name below it must lead to this machine.`
}

const indented = (text: string): string => text.replace(/^/gm, '  ')
