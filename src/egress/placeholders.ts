/**
 * Replaces `${e2b.secrets.…}` in the headers of a rule. Rejects the request if one cannot be replaced; a
 * placeholder is never sent.
 */
import type { HeaderRule, SecretReader } from '../core/ports/egress.ts'
import { Rejection } from './rejection.ts'

const placeholder = /\$\{e2b\.([^{}]*)\}/g
const unsendable = /[^\P{Cc}\t]/u

export async function fillHeaders(
  rule: HeaderRule,
  teamID: string,
  secrets: SecretReader,
): Promise<Record<string, string>> {
  const filled: [name: string, value: string][] = []
  for (const [name, template] of Object.entries(rule.headers)) {
    filled.push([name, await fill(template, name, teamID, secrets)])
  }
  return Object.fromEntries(filled)
}

async function fill(
  template: string,
  header: string,
  teamID: string,
  secrets: SecretReader,
): Promise<string> {
  const values = new Map<string, string>()
  for (const [whole, path] of template.matchAll(placeholder)) {
    if (!path!.startsWith('secrets.')) {
      throw cannotFill(header, `this server does not know the placeholder ${whole}`)
    }
    const secretName = path!.slice('secrets.'.length)
    const value = await secrets.readSecret(teamID, secretName).catch((error: unknown) => {
      throw cannotFill(header, `the secret ${secretName} could not be read`, error)
    })
    if (value === null) {
      throw cannotFill(header, `there is no secret ${secretName}; create it, or correct the rule`)
    }
    if (unsendable.test(value)) throw cannotFill(header, `the secret ${secretName} does not fit in a header`)
    values.set(whole, value)
  }
  if (template.replace(placeholder, '').includes('${e2b.')) {
    throw cannotFill(header, 'it has a placeholder without an end')
  }
  const text = template.replace(placeholder, (whole) => values.get(whole)!)
  // Node writes headers as single bytes.
  return Buffer.from(text).toString('latin1')
}

function cannotFill(header: string, why: string, cause?: unknown): Rejection {
  return new Rejection(502, `The header rule for ${header} could not be applied: ${why}.`, { cause })
}
