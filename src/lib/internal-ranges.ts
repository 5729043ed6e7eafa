/** The IPv4 ranges that are not the public internet: the one list for everything that must keep away from them. */

/**
 * Ranges where hosts of an internal network may be: this host, private and shared networks, the cloud's metadata, and
 * addresses that are not unicast. No sandbox may send there, and no image is fetched from there, unless the operator opens a
 * range.
 */
export const internalRanges: readonly string[] = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '224.0.0.0/4',
  '240.0.0.0/4',
]

/**
 * Ranges that nobody on the public internet has: three for documentation and the retired 6to4 relays. A registry whose
 * name leads there is a mistake or a trick, so no image is fetched from them. A sandbox may send to them: the packets
 * reach nobody, and networks made for tests use these ranges in place of the internet.
 */
export const unassignedRanges: readonly string[] = [
  '192.0.2.0/24',
  '192.88.99.0/24',
  '198.51.100.0/24',
  '203.0.113.0/24',
]
