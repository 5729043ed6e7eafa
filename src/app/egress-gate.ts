/** Opens the gate where the driver sends connections to it. */
import { lookup } from 'node:dns/promises'
import { join } from 'node:path'
import { canLimitEgress, type Driver } from '../core/driver.ts'
import { closedRanges, type SecretReader } from '../core/egress.ts'
import { createAuthority } from '../egress/authority.ts'
import { createGate } from '../egress/gate.ts'
import { errorText } from '../lib/app-error.ts'
import type { Clock } from '../lib/clock.ts'
import { hostNetworks } from '../lib/host-networks.ts'
import { addressToNumber, isWithin, parseRange } from '../lib/ipv4.ts'
import type { Log } from '../lib/log.ts'
import type { Config } from './config.ts'
import type { DataPaths } from './data-folder.ts'
import { createOriginalDestination } from './original-destination.ts'

export type GateParts = {
  config: Config
  paths: DataPaths
  driver: Driver
  secrets: SecretReader
  clock: Clock
  log: Log
}

/** Undefined: there can be none here, and whoever needs it is refused. */
export async function openGate({ config, paths, driver, secrets, clock, log }: GateParts) {
  if (!canLimitEgress(driver)) return undefined
  try {
    const authority = createAuthority(join(paths.root, 'egress'), clock)
    const gate = await createGate({
      ...{ authority, secrets, clock, log },
      host: driver.gateAddress,
      dnsServers: config.dnsServers,
      originalDestination: createOriginalDestination(),
      isClosed: createIsClosed(config.allowPrivateEgress, config.subnet),
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

/** The same for the gate as for packets: this host and the sandboxes never, other closed ranges if they were opened. */
export function createIsClosed(
  openedRanges: readonly string[],
  subnet: string,
): (address: string) => boolean {
  const ranges = (texts: readonly string[]) => texts.flatMap((text) => parseRange(text) ?? [])
  const [closed, opened, pool] = [ranges(closedRanges), ranges(openedRanges), ranges([subnet])]
  return (address) => {
    const number = addressToNumber(address)
    if (number === undefined) return true
    const here = hostNetworks()
    if (isWithin(number, pool) || here.some((own) => own.address === address)) return true
    if (isWithin(number, opened)) return false
    return isWithin(number, [...closed, ...ranges(here.map(({ cidr }) => cidr))])
  }
}

export async function lookupIPv4(name: string): Promise<string[]> {
  const found = await lookup(name, { family: 4, all: true })
  return found.map(({ address }) => address)
}
