/** What this machine's apt knows and does: which mirror it uses, and installing packages with progress. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { AppError, errorText } from '../../lib/app-error.ts'
import { aboutProxy, proxyVariables } from '../../lib/proxy-variables.ts'
import { runCommand } from '../../lib/run-command.ts'
import { programFolders } from './programs.ts'
import { type Advance, eachLine } from './progress.ts'

export type DebianMirrors = { main: string; security: string }

/**
 * The Debian mirrors of this machine, so that a root made here gets its packages from where the machine does.
 * Undefined on a machine that is not Debian: debootstrap knows a mirror of its own then.
 */
export function hostMirrors(aptFolder = '/etc/apt'): DebianMirrors | undefined {
  const folder = join(aptFolder, 'sources.list.d')
  const files = [
    join(aptFolder, 'sources.list'),
    ...(existsSync(folder) ? readdirSync(folder).map((name) => join(folder, name)) : []),
  ].filter((file) => /\.(list|sources)$/.test(file) && existsSync(file))
  const entries = files.flatMap((file) => {
    const text = readFileSync(file, 'utf8')
    return file.endsWith('.sources') ? deb822Entries(text) : oneLineEntries(text)
  })
  const usable = entries.flatMap((entry) => {
    const uri = resolveMirrorFile(entry.uri)
    return uri && /\/debian(-security)?\/?$/.test(uri) ? [{ ...entry, uri: uri.replace(/\/$/, '') }] : []
  })
  const main = usable.find((entry) => !entry.suite.includes('security'))?.uri
  const security = usable.find((entry) => entry.suite.includes('security'))?.uri
  return main ? { main, security: security ?? `${main}-security` } : undefined
}

type AptSource = { uri: string; suite: string }

function deb822Entries(text: string): AptSource[] {
  return text.split(/\n\s*\n/).flatMap((stanza) => {
    const field = (name: string) => new RegExp(`^${name}:(.*)$`, 'im').exec(stanza)?.[1]?.trim() ?? ''
    if (!/\bdeb\b/.test(field('Types')) || field('Enabled') === 'no') return []
    return field('URIs')
      .split(/\s+/)
      .flatMap((uri) =>
        field('Suites')
          .split(/\s+/)
          .map((suite) => ({ uri, suite })),
      )
  })
}

function oneLineEntries(text: string): AptSource[] {
  return [...text.matchAll(/^\s*deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+(\S+)/gm)].map((match) => ({
    uri: match[1]!,
    suite: match[2]!,
  }))
}

/** Cloud images name a file with a list of mirrors instead of a mirror. */
function resolveMirrorFile(uri: string): string | undefined {
  const file = /^mirror\+file:(?:\/\/)?(\/.*)$/.exec(uri)?.[1]
  const real = file && existsSync(file) ? readFileSync(file, 'utf8').trim().split(/\s+/)[0] : uri
  return real && /^https?:/.test(real) ? real : undefined
}

/** Of every address in the text. */
export const withoutPasswords = (text: string): string => text.replace(/(https?:\/\/)[^/@\s]*@/g, '$1')

/** How this machine reaches its mirror, as options for an apt that runs elsewhere. */
export async function hostAcquireOptions(): Promise<string[]> {
  const { stdout } = await runCommand('apt-config', ['dump'])
  const inherited = /^(Acquire::(?:https?::Proxy|Check-Valid-Until)) "(.+)";$/gm
  return [...stdout.matchAll(inherited)].flatMap((match) => ['-o', `${match[1]}=${match[2]}`])
}

/** The rest of the environment stays. apt and debootstrap know a proxy only by the lowercase names. */
export const plainEnvironment = [
  'env',
  '-u',
  'TMPDIR',
  `PATH=${programFolders.join(':')}`,
  'DEBIAN_FRONTEND=noninteractive',
  'LC_ALL=C',
  ...Object.entries(proxyVariables()).map(([name, value]) => `${name}=${value}`),
]

/** Runs apt-get, after the words of `within`, and reports its own measure of how far it is. */
export async function runAptGet(
  advance: Advance,
  args: readonly string[],
  within: readonly string[] = plainEnvironment,
): Promise<void> {
  const downloading = 1 / 3
  const onLine = (line: string) => {
    const [kind, , share, text] = line.split(':')
    if (kind === 'dlstatus') advance((Number(share) / 100) * downloading, 'downloading')
    if (kind === 'pmstatus') advance(downloading + (Number(share) / 100) * (1 - downloading), text?.trim())
  }
  // The words for people are dropped: dpkg's scripts fail when they share a pipe with apt's status lines.
  const aptGet = 'exec apt-get -y -q -o APT::Status-Fd=3 -o DPkg::Lock::Timeout=300 "$@" 3>&1 >/dev/null'
  const [program, ...before] = [...within, 'sh', '-c', aptGet, 'apt-get']
  try {
    await runCommand(program!, [...before, ...args], { onOutput: eachLine(onLine) })
  } catch (error) {
    throw new AppError(
      'unavailable',
      `apt-get ${args[0]} failed: ${complaints(errorText(error))}${aboutProxy('http')}`,
      {
        cause: error,
      },
    )
  }
}

/** The complaints in everything that a package tool printed. */
export function complaints(text: string): string {
  const lines = text.trim().split('\n')
  const errors = lines.filter((line) => /^(E|dpkg): |\berror\b/i.test(line))
  return (errors.length > 0 ? errors : lines).slice(-4).join(' ')
}
