/** Orders one certificate from an ACME authority. Nothing here repeats an order: the keeper does, with growing delays. */
import { runCommand } from '../../lib/run-command.ts'
import type { AcmePlan, PemPair } from '../trust/acme-plan.ts'
import type { AcmeAccount } from './acme-records.ts'

export type OrderParts = {
  plan: AcmePlan
  /** Undefined: the first order makes an account. */
  account: AcmeAccount | undefined
  saveAccount(account: AcmeAccount): Promise<void>
  /** Answers challenges by HTTP. */
  tokens: { add(token: string, answer: string): Promise<void>; remove(token: string): Promise<void> }
}

const requestWithinMs = 30_000
const dnsProgramWithinMs = 300_000

export async function orderCertificate(parts: OrderParts): Promise<PemPair> {
  const { plan } = parts
  // Loaded for an order only.
  const { default: acme } = await import('acme-client')
  acme.axios.defaults.timeout = requestWithinMs
  // By itself the client sends a request five times again when the authority asks for fewer.
  const { acmeSettings } = acme.axios.defaults as unknown as { acmeSettings: { retryMaxAttempts: number } }
  acmeSettings.retryMaxAttempts = 1
  const accountKey = parts.account?.key ?? (await acme.crypto.createPrivateEcdsaKey()).toString()
  const accountUrl = parts.account && { accountUrl: parts.account.url }
  const client = new acme.Client({ directoryUrl: plan.directory, accountKey, ...accountUrl })
  if (!accountUrl) {
    await client.createAccount({
      termsOfServiceAgreed: true,
      ...(plan.email && { contact: [`mailto:${plan.email}`] }),
    })
    await parts.saveAccount({ key: accountKey, url: client.getAccountUrl() })
  }
  const ownKey = await acme.crypto.createPrivateEcdsaKey()
  const [key, csr] = await acme.crypto.createCsr({ altNames: [...plan.names] }, ownKey)
  const cert = await client.auto({
    csr,
    termsOfServiceAgreed: true,
    skipChallengeVerification: true,
    challengePriority: [plan.challenge],
    challengeCreateFn: (authorization, { type, token }, answer) =>
      prove('add', parts, { name: authorization.identifier.value, type, token, answer }),
    challengeRemoveFn: (authorization, { type, token }, answer) =>
      prove('remove', parts, { name: authorization.identifier.value, type, token, answer }),
  })
  return { cert, key: key.toString() }
}

type Proof = { name: string; type: string; token: string; answer: string }

async function prove(
  verb: 'add' | 'remove',
  { plan, tokens }: OrderParts,
  { name, type, token, answer }: Proof,
): Promise<void> {
  if (type !== plan.challenge) throw new Error(`The authority does not accept ${plan.challenge} for ${name}`)
  if (type === 'http-01') return verb === 'add' ? tokens.add(token, answer) : tokens.remove(token)
  const [program = '', ...given] = plan.dnsProgram
  const signal = AbortSignal.timeout(dnsProgramWithinMs)
  await runCommand(program, [...given, verb, `_acme-challenge.${name}`, answer], { signal })
}
