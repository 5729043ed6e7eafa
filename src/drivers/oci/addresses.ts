/** IPv4 arithmetic for the driver's subnet: every slot has a /30, gateway on our side, sandbox on the other. */
import { AppError } from '../../lib/app-error.ts'

export type Subnet = {
  cidr: string
  /** How many slots fit. */
  capacity: number
  gateway(slot: number): string
  sandbox(slot: number): string
}

const addressesPerSlot = 4

export function parseSubnet(cidr: string): Subnet {
  const match = /^(\d{1,3}(?:\.\d{1,3}){3})\/(\d{1,2})$/.exec(cidr)
  const prefix = Number(match?.[2])
  const base = match ? toNumber(match[1]!) : undefined
  if (base === undefined || prefix < 8 || prefix > 28) {
    throw new AppError('invalid_argument', `"${cidr}" is no IPv4 network; write one such as 10.213.0.0/16.`)
  }
  const size = 2 ** (32 - prefix)
  if (base % size !== 0) {
    throw new AppError(
      'invalid_argument',
      `"${cidr}" has host bits set; write ${toText(base - (base % size))}/${prefix}.`,
    )
  }
  const address = (slot: number, offset: number) => toText(base + slot * addressesPerSlot + offset)
  return {
    cidr,
    capacity: size / addressesPerSlot,
    gateway: (slot) => address(slot, 1),
    sandbox: (slot) => address(slot, 2),
  }
}

function toNumber(text: string): number | undefined {
  const bytes = text.split('.').map(Number)
  return bytes.every((byte) => byte <= 255) ? bytes.reduce((sum, byte) => sum * 256 + byte, 0) : undefined
}

function toText(address: number): string {
  return [24, 16, 8, 0].map((shift) => (address >>> shift) & 255).join('.')
}
