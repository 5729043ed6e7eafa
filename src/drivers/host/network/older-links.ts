/**
 * Links of running sandboxes that an earlier release made: the host routes the whole network of the slot over them, so
 * that more senders pass than the address of the sandbox.
 */
import { networkInterfaces } from 'node:os'

const olderMask = '255.255.255.252'

export function olderLinks<T extends { link: string }>(links: readonly T[]): T[] {
  const present = networkInterfaces()
  return links.filter(({ link }) => present[link]?.some(({ netmask }) => netmask === olderMask))
}
