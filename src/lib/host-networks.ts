import { networkInterfaces } from 'node:os'

/** The IPv4 networks this host is on, and its own addresses in them. */
export function hostNetworks(): { cidr: string; address: string }[] {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? [])
  return all.flatMap(({ family, cidr, address }) => (family === 'IPv4' && cidr ? [{ cidr, address }] : []))
}
