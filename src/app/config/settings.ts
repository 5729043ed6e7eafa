/** Turns the text of a setting into a value. The error of each kind says which values are allowed. */
import { isIP } from 'node:net'
import { isAbsolute, normalize } from 'node:path'
import { parseNetwork } from '../../lib/client-origin.ts'
import { parseRange } from '../../lib/ipv4.ts'
import { type Isolations, namesOf } from '../isolation/isolations.ts'

export type Setting<T> = {
  /** The environment variable. */
  name: string
  /** The value of an unset variable; the empty text means "not set". */
  default: string
  unit: string
  help: string
  allowed: string
  /** The value is shown nowhere, not even in an error. */
  isSecret?: true
  /** Undefined: the text is not allowed. */
  parse(text: string): T | undefined
}

type Described<T> = Pick<Setting<T>, 'unit' | 'allowed' | 'parse'>

export function setting<T>(name: string, fallback: string, help: string, kind: Described<T>): Setting<T> {
  return { name, default: fallback, help, ...kind }
}

export function wholeNumber(min: number, max: number, unit = ''): Described<number> {
  return {
    unit,
    allowed: `a whole number from ${min} to ${max}`,
    parse(text) {
      const value = Number(text)
      return /^\d+$/.test(text) && value >= min && value <= max ? value : undefined
    },
  }
}

export function oneOf<const T extends string>(...values: T[]): Described<T> {
  return {
    unit: '',
    allowed: `one of ${values.join(', ')}`,
    parse: (text) => values.find((value) => value === text),
  }
}

/** `auto`, or the name of an isolation. */
export function isolationIn<const Table extends Isolations>(
  table: Table,
): Described<'auto' | (keyof Table & string)> {
  const names = namesOf(table)
  const shown = names.map((name) => [name, ...table[name]!.aliases.map((alias) => `(or ${alias})`)].join(' '))
  return {
    unit: '',
    allowed: `one of ${['auto', ...shown].join(', ')}`,
    parse: (text) =>
      text === 'auto' ? text : names.find((name) => [name, ...table[name]!.aliases].includes(text)),
  }
}

export const address: Described<string> = {
  unit: '',
  allowed: 'an IP address of this machine, such as 127.0.0.1 or 0.0.0.0',
  parse: (text) => (isIP(text) ? text : undefined),
}

export const hostAndPort: Described<string> = {
  unit: '',
  allowed: 'a host name or IP address and a port, such as 10.0.0.5:7443 or [fd00::5]:7443',
  parse(text) {
    const [, host = '', port] = /^(\[[^\]]+\]|[^:\s/]+):(\d{1,5})$/.exec(text) ?? []
    const isPort = Number(port) >= 1 && Number(port) <= 65535
    const isHost = host.startsWith('[') ? isIP(host.slice(1, -1)) === 6 : /^[a-z0-9._-]+$/i.test(host)
    return isPort && isHost ? text : undefined
  },
}

export const folder: Described<string> = {
  unit: '',
  allowed: 'an absolute path',
  parse: (text) => (isAbsolute(text) ? normalize(text).replace(/(?<=.)\/+$/, '') : undefined),
}

export const fileOrHost: Described<string> = {
  unit: '',
  allowed: 'an absolute path, or host',
  parse: (text) => (text === 'host' ? text : folder.parse(text)),
}

/** A kind whose unset value is null. */
export function optional<T>(kind: Described<T>): Described<T | null> {
  return { ...kind, parse: (text) => (text === '' ? null : kind.parse(text)) }
}

export const text: Described<string> = {
  unit: '',
  allowed: 'a text without control characters',
  parse: (text) => (/^\P{C}+$/u.test(text) ? text : undefined),
}

export const list: Described<readonly string[]> = {
  unit: '',
  allowed: 'names separated by commas',
  parse: (text) => text.split(',').flatMap((part) => part.trim() || []),
}

export const pairs: Described<Readonly<Record<string, string>>> = {
  unit: '',
  allowed: 'NAME=PLACE, several separated by commas',
  parse(text) {
    const entries = list.parse(text)!.map((part) => part.split(/=(.*)/s, 2))
    return entries.every(([name, value]) => name && value) ? Object.fromEntries(entries) : undefined
  },
}

/** GPUs by number as in /dev/nvidia0, MIG parts of a GPU such as 0:1, or ids as `nvidia-smi -L` shows them. */
export const gpuChoice: Described<'none' | 'auto' | 'all' | readonly string[]> = {
  unit: '',
  allowed: 'none, auto, all, or GPUs separated by commas, such as 0,1 or GPU-8dd9…',
  parse(text) {
    if (text === 'none' || text === 'auto' || text === 'all') return text
    const names = list.parse(text)!
    const isName = (name: string) => /^(\d+(:\d+)?|(GPU|MIG)-[0-9a-f-]+)$/.test(name)
    return names.length > 0 && names.every(isName) ? Object.freeze(names) : undefined
  },
}

export const databaseUrl: Described<string> = {
  unit: '',
  allowed: 'a URL such as postgres://user:password@host:5432/database',
  parse(text) {
    return /^postgres(ql)?:$/.test(URL.parse(text)?.protocol ?? '') ? text : undefined
  },
}

export const objectStore: Described<string> = {
  unit: '',
  allowed: 's3://bucket or s3://bucket/prefix',
  parse(text) {
    return /^s3:\/\/[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](\/[\w./-]*)?$/.test(text) ? text : undefined
  },
}

export const httpUrl: Described<string> = {
  unit: '',
  allowed: 'a URL that begins with http:// or https://',
  parse(text) {
    return /^https?:$/.test(URL.parse(text)?.protocol ?? '') ? text : undefined
  },
}

export const objectStoreRegion: Described<string> = {
  unit: '',
  allowed: 'a name such as eu-central-1',
  parse(text) {
    return /^[a-z0-9-]+$/.test(text) ? text : undefined
  },
}

/** A host name, with a port if clients have to use a port other than 443. */
export const publicDomain: Described<string> = {
  unit: '',
  allowed: 'a host name with at least one dot, such as sandbox.example.com, optionally with :port',
  parse(text) {
    const label = '[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?'
    return new RegExp(`^(${label}\\.)+${label}(:[0-9]{1,5})?$`).test(text.toLowerCase())
      ? text.toLowerCase()
      : undefined
  },
}

const letsEncrypt: Record<string, string> = {
  staging: 'https://acme-staging-v02.api.letsencrypt.org/directory',
  production: 'https://acme-v02.api.letsencrypt.org/directory',
}

export const acmeDirectory: Described<string> = {
  unit: '',
  allowed: 'staging, production, or a URL that begins with https://',
  parse: (text) => letsEncrypt[text] ?? (URL.parse(text)?.protocol === 'https:' ? text : undefined),
}

export const email: Described<string> = {
  unit: '',
  allowed: 'an e-mail address',
  parse: (text) => (/^[^\s@,]+@[^\s@,]+$/.test(text) ? text : undefined),
}

/** The path of a program, with arguments behind blanks. */
export const program: Described<string> = {
  unit: '',
  allowed: 'the absolute path of a program, with arguments behind blanks',
  parse: (text) => (isAbsolute(text) ? text : undefined),
}

/** An IPv4 network that can be cut into one /30 per sandbox: between /8 and /24, with no host bits. */
export const subnet: Described<string> = {
  unit: '',
  allowed: 'a private IPv4 network between /8 and /24 without host bits, such as 10.213.0.0/16',
  parse(text) {
    const match = /^(\d{1,3}(?:\.\d{1,3}){3})\/(\d{1,2})$/.exec(text)
    if (!match || isIP(match[1]!) !== 4) return undefined
    const bits = Number(match[2])
    const [a, b, c, d] = match[1]!.split('.').map(Number) as [number, number, number, number]
    const isPrivate =
      a === 10 ||
      (a === 172 && b >= 16 && b < 32) ||
      (a === 192 && b === 168) ||
      (a === 100 && b >= 64 && b < 128)
    const hostBits = ((a << 24) | (b << 16) | (c << 8) | d) & (2 ** (32 - bits) - 1)
    return isPrivate && bits >= 8 && bits <= 24 && hostBits === 0 ? text : undefined
  },
}

export const addressList: Described<readonly string[]> = {
  unit: '',
  allowed: 'IPv4 addresses separated by commas',
  parse(text) {
    const addresses = text.split(',').map((part) => part.trim())
    return addresses.every((part) => isIP(part) === 4) ? Object.freeze(addresses) : undefined
  },
}

export const proxyList: Described<readonly string[]> = {
  unit: '',
  allowed: 'addresses and networks separated by commas, such as 10.0.0.0/8,::1',
  parse(text) {
    const networks = list.parse(text)!
    return networks.every((network) => parseNetwork(network)) ? Object.freeze(networks) : undefined
  },
}

export const networkList: Described<readonly string[]> = {
  unit: '',
  allowed: 'IPv4 networks separated by commas, such as 10.1.0.0/16,192.168.7.5/32',
  parse(text) {
    const networks = list.parse(text)!
    return networks.every((network) => parseRange(network)) ? Object.freeze(networks) : undefined
  },
}

/** The source of the base template; the set-up recognizes whether it is a container image reference. */
export const baseImage: Described<string> = {
  unit: '',
  allowed: 'debootstrap:<Debian release>, such as debootstrap:bookworm, or folder:<absolute path>',
  parse: (text) => (/^folder:\/.+$|^[a-z0-9][\w./:@-]*$/i.test(text) ? text : undefined),
}
