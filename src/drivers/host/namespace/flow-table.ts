/**
 * The kernel's table of connections, which outlives the network of a sandbox: packets on a connection of the
 * last sandbox at an address would reach the next one there, and the kernel would remember the connections of an
 * ended sandbox for days.
 */
import { addressToNumber } from '../../../lib/ipv4.ts'
import { attribute, nested, numberAttribute, openNetlink } from './netlink.ts'

export type FlowTable = {
  /** Ends all connections that were opened from this address or to it. Takes about a millisecond. */
  forget(address: string): void
}

const netfilterProtocol = 12
/** IPCTNL_MSG_CT_DELETE of NFNL_SUBSYS_CTNETLINK. */
const deleteFlows = 0x102
const internetFamily = 2
/**
 * CTA_TUPLE_ORIG, CTA_TUPLE_REPLY, CTA_TUPLE_IP and CTA_IP_V4_SRC; CTA_FILTER and the flag of a source address.
 */
const attributes = { opened: 1, answered: 2, addresses: 1, source: 1, filter: 25, bySource: 1 } as const
/** The tuple by which a connection is looked for, and CTA_FILTER_ORIG_FLAGS or CTA_FILTER_REPLY_FLAGS. */
const directions = [
  { tuple: attributes.opened, flags: 1 },
  { tuple: attributes.answered, flags: 2 },
]

export function openFlowTable(): FlowTable {
  const flows = openNetlink(netfilterProtocol, 'Connections of ended sandboxes cannot be ended')
  return {
    forget(address) {
      for (const direction of directions)
        flows.ask('connections by their address', deleteFlows, forgetRequest(address, direction))
    },
  }
}

type Direction = (typeof directions)[number]

/** Who opened a connection is the source of what is sent, and who was called is the source of the answers. */
function forgetRequest(address: string, { tuple, flags }: Direction): Buffer {
  const source = Buffer.alloc(4)
  source.writeUInt32BE(addressToNumber(address)!)
  const { addresses, filter, bySource } = attributes
  return Buffer.concat([
    Buffer.from([internetFamily, 0, 0, 0]),
    nested(tuple, nested(addresses, attribute(attributes.source, source))),
    nested(filter, numberAttribute(flags, bySource)),
  ])
}
