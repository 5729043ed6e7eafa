/**
 * The network of a slot: a namespace with a link to the host, addresses on both ends, a route, and settings
 * that the root user of a sandbox needs without control over the namespace. IPv6 exists on the loopback only,
 * where programs expect ::1.
 * On the host, the link leads to the sandbox's address and to no other: the firewall lets a sender pass only if
 * the route to it leads back over the link, and the kernel answers ARP requests of no other sender.
 */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { addressToNumber } from '../../../lib/ipv4.ts'
import { homeNetwork, inNamespace, kernelCall, makeNamespace, mount, mountFlags } from './namespace-calls.ts'
import { attribute, type Netlink, nested, numberAttribute, openNetlink, textAttribute } from './netlink.ts'

export type NetworkTask = {
  /** The file that keeps the namespace alive. */
  path: string
  /** The name of the host's end. */
  link: string
  gateway: string
  address: string
}

const routeProtocol = 0
const internetFamily = 2
/** Inside, where programs expect a gateway in the network of their address; and on the host. */
const prefixBits = 30
const hostPrefixBits = 32
const loopback = 1
const isUp = 1
const create = 0x400
const exclusive = 0x200
const replace = 0x100
const messages = { newLink: 16, newAddress: 20, deleteAddress: 21, newRoute: 24 } as const
/** IFLA_IFNAME, IFLA_LINKINFO, IFLA_NET_NS_FD; IFLA_INFO_KIND, IFLA_INFO_DATA; VETH_INFO_PEER. */
const linkAttributes = { name: 3, info: 18, namespace: 28, kind: 1, data: 2, peer: 1 } as const
/** IFA_ADDRESS and IFA_LOCAL; RTA_DST, RTA_OIF, RTA_GATEWAY and RTA_PREFSRC. */
const addressOf = 1
const ownAddress = 2
const targetOf = 1
const outputOf = 4
const gatewayOf = 5
const sourceOf = 7
/** RT_TABLE_MAIN, RTPROT_BOOT, RT_SCOPE_UNIVERSE and RTN_UNICAST; and to one address, with RT_SCOPE_LINK. */
const plainRoute = Buffer.from([internetFamily, 0, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0])
const linkRoute = Buffer.from([internetFamily, hostPrefixBits, 0, 0, 254, 3, 253, 1, 0, 0, 0, 0])

const numberOf = kernelCall('int if_nametoindex(const char *name)')

function linkNumber(name: string): number {
  const number = numberOf(name, name)
  if (number === 0) throw new Error(`there is no link ${name}`)
  return number
}

/** `holder` is a process in the namespace to use; without one it is created. */
export function makeNetwork(task: NetworkTask, pinnedBy?: number): void {
  const { path, link } = task
  shareFolder(path.slice(0, path.lastIndexOf('/')))
  writeFileSync(path, '', { flag: 'wx', mode: 0o444 })
  if (pinnedBy === undefined) makeNamespace('network', path, () => configureInside(task))
  else {
    const used = `/proc/${pinnedBy}/ns/net`
    mount({ source: used, target: path, flags: mountFlags.bind })
    inNamespace('network', used, () => configureInside(task))
  }
  closeLink(link)
  withRoutes((routes) => {
    addAddress(routes, gatewayOn(task, hostPrefixBits), create | exclusive)
    raise(routes, link)
    addRoute(routes, task, create | exclusive)
  })
}

/** The host's end of a link. */
export type LinkTask = Pick<NetworkTask, 'link' | 'gateway' | 'address'>

/**
 * Gives older links their present form. Connections to the sandboxes go on: the
 * gateways' addresses are there throughout.
 */
export function narrowLinks(tasks: readonly LinkTask[]): void {
  withRoutes((routes) => {
    for (const task of tasks) narrow(routes, task)
  })
}

function narrow(routes: Netlink, task: LinkTask): void {
  closeLink(task.link)
  addAddress(routes, gatewayOn(task, hostPrefixBits), create | replace)
  addRoute(routes, task, create | replace)
  const older = addressBody(gatewayOn(task, prefixBits))
  routes.ask(`older address of ${task.link}`, messages.deleteAddress, older)
}

const gatewayOn = ({ link, gateway }: LinkTask, bits: number): LinkAddress => ({
  link,
  address: gateway,
  bits,
})

/** The only route over the link. */
function addRoute(routes: Netlink, { link, gateway, address }: LinkTask, flags: number): void {
  const output = numberAttribute(outputOf, linkNumber(link))
  const [to, from] = [attribute(targetOf, addressBytes(address)), attribute(sourceOf, addressBytes(gateway))]
  const body = Buffer.concat([linkRoute, to, from, output])
  routes.ask(`route to ${address}`, messages.newRoute, body, flags)
}

/** With `arp_filter` the kernel neither answers nor remembers a sender to whom no route leads over this link. */
function closeLink(link: string): void {
  const settings = { 'ipv6/disable_ipv6': 1, 'ipv4/arp_ignore': 1, 'ipv4/arp_filter': 1 }
  for (const [name, value] of Object.entries(settings)) {
    setIfThere(`/proc/sys/net/${name.replace('/', `/conf/${link}/`)}`, value)
  }
}

function configureInside({ link, address, gateway }: NetworkTask): void {
  withRoutes((routes) => {
    addLinkPair(routes, link)
    for (const each of ['all', 'default']) setIfThere(`/proc/sys/net/ipv6/conf/${each}/disable_ipv6`, 1)
    setIfThere('/proc/sys/net/ipv6/conf/lo/disable_ipv6', 0)
    writeFileSync('/proc/sys/net/ipv4/ip_unprivileged_port_start', '0')
    writeFileSync('/proc/sys/net/ipv4/ping_group_range', '0 2147483647')
    raise(routes, 'lo', loopback)
    addAddress(routes, { link: 'eth0', address, bits: prefixBits }, create | exclusive)
    raise(routes, 'eth0')
    const via = attribute(gatewayOf, addressBytes(gateway))
    routes.ask('default route', messages.newRoute, Buffer.concat([plainRoute, via]), create | exclusive)
  })
}

function withRoutes(work: (routes: Netlink) => void): void {
  const routes = openNetlink(routeProtocol, 'The networks of sandboxes cannot be made')
  try {
    work(routes)
  } finally {
    routes.close()
  }
}

/** Makes mounts below it visible in all mount namespaces that have it, like `ip netns`. */
function shareFolder(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o755 })
  const share = () => mount({ source: null, target: folder, flags: mountFlags.shared | mountFlags.recursive })
  try {
    share()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EINVAL') throw error
    mount({ source: folder, target: folder, flags: mountFlags.bind | mountFlags.recursive })
    share()
  }
}

/** A kernel without IPv6 has nothing to set. */
function setIfThere(path: string, value: number): void {
  if (existsSync(path)) writeFileSync(path, String(value))
}

/** `eth0` here, and its other end in the host's network. */
function addLinkPair(routes: Netlink, hostName: string): void {
  const { name, info, namespace, kind, data, peer } = linkAttributes
  const hostEnd = Buffer.concat([
    linkHead(0, 0),
    textAttribute(name, hostName),
    numberAttribute(namespace, homeNetwork),
  ])
  const body = Buffer.concat([
    linkHead(0, 0),
    textAttribute(name, 'eth0'),
    nested(info, textAttribute(kind, 'veth'), nested(data, attribute(peer, hostEnd))),
  ])
  routes.ask(`link ${hostName}`, messages.newLink, body, create | exclusive)
}

function raise(routes: Netlink, name: string, number = linkNumber(name)): void {
  routes.ask(`link ${name} up`, messages.newLink, linkHead(number, isUp))
}

/** The `struct ifinfomsg`: the link, and the flags to set. */
function linkHead(number: number, flags: number): Buffer {
  const head = Buffer.alloc(16)
  head.writeInt32LE(number, 4)
  head.writeUInt32LE(flags, 8)
  head.writeUInt32LE(flags, 12)
  return head
}

type LinkAddress = { link: string; address: string; bits: number }

function addAddress(routes: Netlink, address: LinkAddress, flags: number): void {
  routes.ask(
    `address ${address.address} on ${address.link}`,
    messages.newAddress,
    addressBody(address),
    flags,
  )
}

function addressBody({ link, address, bits }: LinkAddress): Buffer {
  const head = Buffer.from([internetFamily, bits, 0, 0, 0, 0, 0, 0])
  head.writeUInt32LE(linkNumber(link), 4)
  const bytes = addressBytes(address)
  return Buffer.concat([head, attribute(ownAddress, bytes), attribute(addressOf, bytes)])
}

function addressBytes(address: string): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(addressToNumber(address)!)
  return bytes
}
