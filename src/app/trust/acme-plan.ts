/** What the settings ask of an ACME authority, and which certificates answer that. */
import { X509Certificate } from 'node:crypto'
import type { Config } from '../config/config.ts'

export type AcmePlan = {
  directory: string
  email: string | null
  names: readonly string[]
  challenge: 'dns-01' | 'http-01'
  /** The program that sets TXT records, with its arguments. */
  dnsProgram: readonly string[]
}

export type PemPair = { cert: string; key: string }

/** The issuer of the certificate that Warren makes until the real one arrives. */
export const temporaryIssuer = 'Warren before its first certificate'

/** HTTP proves one name at a time, and no wildcard: clients then reach all sandboxes through one name. */
export function acmePlan({ acme, acmeEmail, acmeDns, domain }: Config): AcmePlan | undefined {
  if (acme === null || domain === null) return undefined
  const name = domain.replace(/:\d+$/, '')
  const dnsProgram = acmeDns?.split(/\s+/) ?? []
  const shared = { directory: acme, email: acmeEmail, dnsProgram }
  return dnsProgram.length > 0
    ? { ...shared, names: [name, `*.${name}`], challenge: 'dns-01' }
    : { ...shared, names: [`api.${name}`, `sandbox.${name}`], challenge: 'http-01' }
}

/** Two plans with the same text want the same certificate. */
export const planText = ({ directory, names }: AcmePlan): string => [directory, ...names].join(' ')

export const endOf = ({ cert }: PemPair): number => new X509Certificate(cert).validToDate.getTime()

/** Whether clients accept it for all names of the plan. */
export function isUsable({ cert }: PemPair, { names }: AcmePlan, now: number): boolean {
  const certificate = new X509Certificate(cert)
  const hosts = names.map((name) => name.replace('*', 'any'))
  return certificate.validToDate.getTime() > now && hosts.every((host) => certificate.checkHost(host))
}

/** Authorities ask clients to renew when a third of the time is left. */
export function isDue({ cert }: PemPair, now: number): boolean {
  const { validFromDate, validToDate } = new X509Certificate(cert)
  const ends = validToDate.getTime()
  return ends - now < (ends - validFromDate.getTime()) / 3
}
