/**
 * Keeps the certificate of ACME in the data folder usable: orders it, renews it, and takes what another Warren of
 * the cluster has ordered. The server watches the files and uses new ones at once.
 */
import type { LeaseStore } from '../../core/ports/lease-store.ts'
import { errorText } from '../../lib/app-error.ts'
import { issueCertificate, makeAuthority } from '../../lib/certificates.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import { delayAfter } from '../../lib/retry-delays.ts'
import { type AcmeFiles, readPair, writePair, writeTrouble } from '../trust/acme-files.ts'
import {
  type AcmePlan,
  endOf,
  isDue,
  isUsable,
  type PemPair,
  planText,
  temporaryIssuer,
} from '../trust/acme-plan.ts'
import type { AcmeFailure, AcmeRecords } from './acme-records.ts'
import type { OrderParts } from './order-certificate.ts'

type KeeperParts = {
  plan: AcmePlan
  files: AcmeFiles
  records: AcmeRecords
  leases: LeaseStore
  order(parts: OrderParts): Promise<PemPair>
  clock: Clock
  log: Log
}

/**
 * Let's Encrypt accepts five failed proofs of a name in an hour. The delays allow four tries in the first hour, and two
 * a day at last.
 */
const tryAgain = { firstMs: 5 * 60_000, longestMs: 12 * 3_600_000 }
/** Longer than an order takes. */
const leaseMs = 30 * 60_000
const lease = 'acme order'
const temporaryDays = 30

export class CertificateKeeper {
  readonly #parts: KeeperParts

  constructor(parts: KeeperParts) {
    this.#parts = parts
  }

  /** Called before the server listens: the files then have a certificate, at worst one that no client trusts. */
  async prepare(): Promise<void> {
    const { plan, files, records, clock, log } = this.#parts
    const now = clock.now()
    const here = await readPair(files).catch(() => undefined)
    const shared = await records.readCertificate()
    if (shared && isUsable(shared, plan, now)) return this.#use(here, shared)
    if (here && safely(() => isUsable(here, plan, now))) return
    const authority = makeAuthority(temporaryIssuer, temporaryDays, clock)
    const { certificate, key } = issueCertificate(
      authority,
      { names: plan.names, days: temporaryDays },
      clock,
    )
    await writePair(files, { cert: certificate, key })
    log.warn(
      { names: plan.names },
      'serving with a certificate that clients reject until the real one arrives',
    )
  }

  /** One look; orders if it is time to. */
  async check(): Promise<void> {
    const { plan, files, records, leases, clock } = this.#parts
    const found = await this.#look()
    if (!found.isDue) {
      await writeTrouble(files, undefined)
      return
    }
    const failure = await this.#failureOfPlan()
    if (failure && mustWait(failure, clock.now())) return this.#note(failure)
    if (!(await leases.acquire(lease, leaseMs))) return
    try {
      // Another Warren may just have finished.
      if (!(await this.#look()).isDue) return
      await this.#order(failure)
    } finally {
      await leases.release(lease)
    }
    const now = await records.readFailure()
    if (now?.plan === planText(plan)) await this.#note(now)
    else await writeTrouble(files, undefined)
  }

  async #look(): Promise<{ isDue: boolean }> {
    const { plan, files, records, clock } = this.#parts
    const shared = await records.readCertificate()
    const now = clock.now()
    if (!shared || !isUsable(shared, plan, now)) return { isDue: true }
    await this.#use(await readPair(files), shared)
    return { isDue: shared.plan !== planText(plan) || isDue(shared, now) }
  }

  async #use(here: PemPair | undefined, { cert, key }: PemPair): Promise<void> {
    if (here?.cert !== cert || here.key !== key) await writePair(this.#parts.files, { cert, key })
  }

  async #failureOfPlan(): Promise<AcmeFailure | undefined> {
    const failure = await this.#parts.records.readFailure()
    return failure?.plan === planText(this.#parts.plan) ? failure : undefined
  }

  async #order(before: AcmeFailure | undefined): Promise<void> {
    const { plan, files, records, order, clock, log } = this.#parts
    const { directory, names } = plan
    try {
      const pair = await order({
        plan,
        account: await records.readAccount(directory),
        saveAccount: (account) => records.writeAccount(directory, account),
        tokens: {
          add: (token, answer) => records.writeAnswer(token, answer, clock.now()),
          remove: (token) => records.removeAnswer(token),
        },
      })
      await records.writeCertificate({ ...pair, plan: planText(plan) })
      await writePair(files, pair)
      await records.removeFailure()
      log.info({ names, directory, until: new Date(endOf(pair)).toISOString() }, 'got a TLS certificate')
    } catch (error) {
      const failures = (before?.failures ?? 0) + 1
      const at = clock.now()
      const retryAt = at + delayAfter(failures, tryAgain)
      const message = errorText(error)
      if (accountIsLost.test(message)) await records.removeAccount(directory)
      await records.writeFailure({ plan: planText(plan), failures, at, retryAt, message })
      log.error(
        { err: error, names, directory, failures, retryAt: new Date(retryAt).toISOString() },
        `got no TLS certificate: ${message}. The one before stays in use; the next try is at ${new Date(retryAt).toISOString()}`,
      )
    }
  }

  #note({ message, failures, retryAt }: AcmeFailure): Promise<void> {
    return writeTrouble(this.#parts.files, { message, failures, retryAt })
  }
}

/** Authorities say in their own words that they do not know an account any more. The next try makes another. */
const accountIsLost =
  /account\b.*(not found|not exist|not valid|deactivated)|no account|find existing account/i

/** A clock that was set back must not make Warren wait for long. */
const mustWait = ({ at, retryAt }: AcmeFailure, now: number): boolean => now >= at && now < retryAt

function safely(judge: () => boolean): boolean {
  try {
    return judge()
  } catch {
    return false
  }
}
