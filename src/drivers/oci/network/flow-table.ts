/**
 * The kernel's table of connections, which outlives the network of a sandbox: packets on a connection of the
 * last sandbox at an address would reach the next one there.
 */
import { addressToNumber } from '../../../lib/ipv4.ts'
import { attribute, nested, numberAttribute, openNetlink } from '../namespace/netlink.ts'

export type FlowTable = {
  /** Ends all connections that were opened from this address. Takes about a millisecond. */
  forget(address: string): void
}

const netfilterProtocol = 12
/** IPCTNL_MSG_CT_DELETE of NFNL_SUBSYS_CTNETLINK. */
const deleteFlows = 0x102
const internetFamily = 2
/**
 * CTA_TUPLE_ORIG, CTA_TUPLE_IP and CTA_IP_V4_SRC; CTA_FILTER, CTA_FILTER_ORIG_FLAGS and the flag of a source
 * address.
 */
const attributes = { tuple: 1, addresses: 1, source: 1, filter: 25, filterFlags: 1, bySource: 1 } as const

export function openFlowTable(): FlowTable {
  const flows = openNetlink(netfilterProtocol, 'Connections of ended sandboxes cannot be ended')
  return {
    forget: (address) => flows.ask('connections by their address', deleteFlows, forgetRequest(address)),
  }
}

/**
 * Ends connections by their address. Where that fails, connections end when they time out. One failure says nothing about the
 * next address, so each is tried; a kernel that can never do it is logged once.
 */
export function flowForgetter(
  log: (message: string, cause?: unknown) => void,
  open: () => FlowTable = openFlowTable,
): (address: string) => void {
  let table: FlowTable | undefined
  let hasFailed = false
  return (address) => {
    try {
      table ??= open()
      table.forget(address)
      hasFailed = false
    } catch (error) {
      if (!hasFailed)
        log(
          'Connections of an ended sandbox may reach the next one at its address until they time out',
          error,
        )
      hasFailed = true
    }
  }
}

function forgetRequest(address: string): Buffer {
  const source = Buffer.alloc(4)
  source.writeUInt32BE(addressToNumber(address)!)
  const { tuple, addresses, filter, filterFlags, bySource } = attributes
  return Buffer.concat([
    Buffer.from([internetFamily, 0, 0, 0]),
    nested(tuple, nested(addresses, attribute(attributes.source, source))),
    nested(filter, numberAttribute(filterFlags, bySource)),
  ])
}
