/**
 * The driver's subnet: every slot has a /30, with the gateway on our side and the sandbox on the other. The
 * last /30 belongs to no slot: redirected connections arrive there.
 */
import { AppError } from '../../../lib/app-error.ts'
import { addressToNumber, numberToAddress } from '../../../lib/ipv4.ts'

export type Subnet = {
  cidr: string
  /** Number of slots that fit. */
  capacity: number
  gateway(slot: number): string
  sandbox(slot: number): string
  gate: string
}

const addressesPerSlot = 4

export function parseSubnet(cidr: string): Subnet {
  const match = /^(\d{1,3}(?:\.\d{1,3}){3})\/(\d{1,2})$/.exec(cidr)
  const prefix = Number(match?.[2])
  const base = match ? addressToNumber(match[1]!) : undefined
  if (base === undefined || prefix < 8 || prefix > 28) {
    throw new AppError(
      'invalid_argument',
      `"${cidr}" is not an IPv4 network; write one such as 10.213.0.0/16.`,
    )
  }
  const size = 2 ** (32 - prefix)
  if (base % size !== 0) {
    throw new AppError(
      'invalid_argument',
      `"${cidr}" has host bits set; write ${numberToAddress(base - (base % size))}/${prefix}.`,
    )
  }
  const address = (slot: number, offset: number) => numberToAddress(base + slot * addressesPerSlot + offset)
  return {
    cidr,
    capacity: size / addressesPerSlot - 1,
    gateway: (slot) => address(slot, 1),
    sandbox: (slot) => address(slot, 2),
    gate: address(size / addressesPerSlot - 1, 1),
  }
}
