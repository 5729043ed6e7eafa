/**
 * What the Warrens of one database share about their certificate: the account, the certificate, the answers to
 * challenges, and the last failure. Keys are sealed.
 */
import type { SharedValueStore } from '../../core/ports/shared-value-store.ts'
import type { SealedValue, SecretVault } from '../../core/secret/vault.ts'
import type { PemPair } from '../trust/acme-plan.ts'

/** The account at one directory. */
export type AcmeAccount = { key: string; url: string }
type OrderedCertificate = PemPair & { plan: string }
/** `plan`: failures of another plan do not count. */
export type AcmeFailure = { plan: string; failures: number; at: number; retryAt: number; message: string }

type Token = { answer: string; until: number }

/** An order takes a minute or two. */
const tokenForMs = 3_600_000
const tokenForm = /^[\w-]{16,128}$/

export class AcmeRecords {
  readonly #values: SharedValueStore
  readonly #vault: SecretVault

  constructor(values: SharedValueStore, vault: SecretVault) {
    this.#values = values
    this.#vault = vault
  }

  async readAccount(directory: string): Promise<AcmeAccount | undefined> {
    const text = await this.#readSealed(`account ${directory}`)
    return text === undefined ? undefined : JSON.parse(text)
  }

  writeAccount = (directory: string, account: AcmeAccount): Promise<void> =>
    this.#writeSealed(`account ${directory}`, JSON.stringify(account))

  removeAccount = (directory: string): Promise<void> => this.#values.remove(nameOf(`account ${directory}`))

  async readCertificate(): Promise<OrderedCertificate | undefined> {
    const text = await this.#readSealed('certificate')
    return text === undefined ? undefined : JSON.parse(text)
  }

  writeCertificate = (certificate: OrderedCertificate): Promise<void> =>
    this.#writeSealed('certificate', JSON.stringify(certificate))

  async readFailure(): Promise<AcmeFailure | undefined> {
    const text = await this.#values.read(nameOf('failure'))
    return text === undefined ? undefined : JSON.parse(text)
  }

  writeFailure = (failure: AcmeFailure): Promise<void> =>
    this.#values.write(nameOf('failure'), JSON.stringify(failure))

  removeFailure = (): Promise<void> => this.#values.remove(nameOf('failure'))

  /** Undefined if no order asks for this token. */
  async readAnswer(token: string, now: number): Promise<string | undefined> {
    if (!tokenForm.test(token)) return undefined
    const text = await this.#values.read(nameOf(`token ${token}`))
    const { answer, until }: Token = text === undefined ? { answer: '', until: 0 } : JSON.parse(text)
    return until > now ? answer : undefined
  }

  writeAnswer = (token: string, answer: string, now: number): Promise<void> =>
    this.#values.write(
      nameOf(`token ${token}`),
      JSON.stringify({ answer, until: now + tokenForMs } satisfies Token),
    )

  removeAnswer = (token: string): Promise<void> => this.#values.remove(nameOf(`token ${token}`))

  async #readSealed(name: string): Promise<string | undefined> {
    const text = await this.#values.read(nameOf(name))
    return text === undefined ? undefined : this.#vault.open(placeOf(name), JSON.parse(text) as SealedValue)
  }

  #writeSealed(name: string, text: string): Promise<void> {
    return this.#values.write(nameOf(name), JSON.stringify(this.#vault.seal(placeOf(name), text)))
  }
}

const nameOf = (name: string): string => `acme ${name}`

const placeOf = (name: string) => ({
  identity: ['acme', name],
  name: `The ACME ${name.split(' ')[0]}`,
  remedy: `delete the row '${nameOf(name)}' of the table shared_values`,
})
