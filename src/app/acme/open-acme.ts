/** Joins the keeper of the certificate and the plain port to the server. */
import { once } from 'node:events'
import type { SecretVault } from '../../core/secret/vault.ts'
import { AppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import { untilAborted } from '../../lib/until-aborted.ts'
import type { Stores } from '../../store/stores.ts'
import type { Config } from '../config/config.ts'
import { repeat } from '../domain/repeat.ts'
import { portProblem } from '../doors/port.ts'
import type { Closers } from '../process/shutdown.ts'
import { acmePlan } from '../trust/acme-plan.ts'
import { AcmeRecords } from './acme-records.ts'
import { CertificateKeeper } from './certificate-keeper.ts'
import { createChallengeDoor } from './challenge-door.ts'
import { orderCertificate } from './order-certificate.ts'

/** Another Warren of the cluster may have ordered. */
const lookEveryMs = 30_000

type AcmeParts = {
  config: Config
  stores: Pick<Stores, 'sharedValues' | 'leases'>
  vault: SecretVault
  clock: Clock
  log: Log
}

/** Returns what to do once the server listens. */
export async function openAcme(parts: AcmeParts, closers: Closers): Promise<() => void> {
  const { config, stores, vault, clock, log } = parts
  const { domain, tlsCert: cert, tlsKey: key } = config
  const plan = acmePlan(config)
  if (!plan || !domain || !cert || !key) return () => {}
  const records = new AcmeRecords(stores.sharedValues, vault)
  const keeper = new CertificateKeeper({
    plan,
    files: { cert, key },
    records,
    leases: stores.leases,
    order: orderCertificate,
    clock,
    log,
  })
  await keeper.prepare()
  if (plan.challenge === 'http-01') {
    const door = createChallengeDoor({
      domain,
      readAnswer: (token) => records.readAnswer(token, clock.now()),
    })
    door.listen(config.acmeHttpPort, config.host)
    await once(door, 'listening').catch((error) => refusePort(config, error))
    closers.add('the plain port', () => {
      door.close()
      door.closeAllConnections()
    })
  }
  return () => {
    // An order takes minutes, and the next start can make another.
    const closing = new AbortController()
    const work = () =>
      untilAborted(keeper.check(), closing.signal).catch((error) => {
        if (!closing.signal.aborted) throw error
      })
    const job = 'keep the TLS certificate'
    const first = work().catch((error) => log.error({ err: error }, `could not ${job}`))
    const stop = repeat({ job, pauseMs: lookEveryMs, work }, { clock, log })
    closers.add(`the job '${job}'`, async () => {
      closing.abort()
      await Promise.all([first, stop()])
    })
  }
}

async function refusePort({ host, acmeHttpPort }: Config, cause: Error): Promise<never> {
  const problem = await portProblem(host, acmeHttpPort)
  const why = problem?.text.replace(/ Stop that program.*/, '') ?? cause.message
  throw new AppError(
    'unavailable',
    `${why} WARREN_ACME proves the domain there: free the port, set WARREN_ACME_HTTP_PORT and lead port 80 to it, or prove by DNS (WARREN_ACME_DNS).`,
    { cause },
  )
}
