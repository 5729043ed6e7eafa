/** Opens the gate at the address to which the driver redirects connections. */
import { join } from 'node:path'
import { canLimitEgress, type Driver } from '../../core/ports/driver.ts'
import type { SecretReader } from '../../core/ports/egress.ts'
import type { OnDecision } from '../../egress/decide.ts'
import { createEgressAuthority } from '../../egress/egress-authority.ts'
import { createGate } from '../../egress/gate.ts'
import { createResolve } from '../../egress/resolve.ts'
import { errorText } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { hostNetworks } from '../../lib/host-networks.ts'
import { internalRanges } from '../../lib/internal-ranges.ts'
import { addressToNumber, isWithin, mergeRanges, parseRange } from '../../lib/ipv4.ts'
import type { Log } from '../../lib/log.ts'
import type { Config } from '../config/config.ts'
import type { DataPaths } from '../data/data-folder.ts'
import { createOriginalDestination } from '../doors/original-destination.ts'

type GateParts = {
  config: Config
  paths: DataPaths
  driver: Driver
  secrets: SecretReader
  isClosed: (address: string) => boolean
  extraCA: string | undefined
  clock: Clock
  log: Log
  onDecision: OnDecision
}

/** Undefined if there can be no gate here; policies that need one are rejected then. */
export async function openGate({ config, paths, driver, extraCA, log, ...rest }: GateParts) {
  if (!canLimitEgress(driver)) return undefined
  try {
    const authority = createEgressAuthority(join(paths.root, 'egress'), rest.clock)
    const gate = await createGate({
      ...rest,
      authority,
      log,
      host: driver.gateAddress,
      dnsServers: config.dnsServers,
      ...(extraCA !== undefined && { furtherTrust: [extraCA] }),
      originalDestination: createOriginalDestination(),
    })
    await driver.openGate(gate.ports).catch(async (error) => {
      await gate.close()
      throw error
    })
    return { gate, authority }
  } catch (error) {
    log.error({ err: error }, `rules by name are not available: ${errorText(error)}`)
    return undefined
  }
}

const networksAreTrueForMs = 5000

/**
 * Returns whether an address is closed, by the same rules for the gate as for packets: this host and the sandboxes are
 * always closed, and other private ranges unless the operator opened them.
 */
export function createIsClosed(
  openedRanges: readonly string[],
  subnet: string,
  clock: Clock,
  networksNow = hostNetworks,
): (address: string) => boolean {
  const ranges = (texts: readonly string[]) => texts.flatMap((text) => parseRange(text) ?? [])
  const [closed, opened, pool] = [ranges(internalRanges), ranges(openedRanges), ranges([subnet])]
  let here = { own: new Set<string>(), networks: ranges([]), until: 0 }
  return (address) => {
    if (here.until <= clock.now()) {
      const found = networksNow()
      const until = clock.now() + networksAreTrueForMs
      const networks = mergeRanges(ranges(found.map(({ cidr }) => cidr)))
      here = { own: new Set(found.map((one) => one.address)), networks, until }
    }
    const number = addressToNumber(address)
    if (number === undefined || isWithin(number, pool) || here.own.has(address)) return true
    if (isWithin(number, opened)) return false
    return isWithin(number, closed) || isWithin(number, here.networks)
  }
}

/** Names in policies are resolved by the same servers as names that sandboxes ask for. */
export function createLookup(
  dnsServers: readonly string[],
  clock: Clock,
): (host: string) => Promise<string[]> {
  const resolve = createResolve(clock)
  return async (host) => (addressToNumber(host) === undefined ? resolve(host, dnsServers) : [host])
}
