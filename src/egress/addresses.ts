/** IPv4 addresses and ranges as numbers, so that a connection is judged without building texts. */

export type Range = { first: number; last: number }

/** Only the plain form of four decimal parts; a leading zero could mean octal elsewhere. */
export function addressNumber(text: string): number | null {
  const parts = text.split('.')
  if (parts.length !== 4) return null
  let number = 0
  for (const part of parts) {
    if (!/^(?:0|[1-9]\d{0,2})$/.test(part) || Number(part) > 255) return null
    number = number * 256 + Number(part)
  }
  return number
}

/** An address alone is a range of one. Host bits are ignored, as in the kernel. */
export function parseRange(text: string): Range | null {
  const [address = '', prefixText = '32', ...rest] = text.split('/')
  const number = addressNumber(address)
  if (number === null || rest.length > 0 || !/^\d{1,2}$/.test(prefixText)) return null
  const size = 2 ** (32 - Number(prefixText))
  if (size < 1) return null
  const first = number - (number % size)
  return { first, last: first + size - 1 }
}

export function isInRanges(address: string, ranges: readonly string[]): boolean {
  const number = addressNumber(address)
  if (number === null) return false
  return ranges.some((text) => {
    const range = parseRange(text)
    return range !== null && number >= range.first && number <= range.last
  })
}

/** Sockets that listen for both families show an IPv4 peer in IPv6 dress. */
export const plainAddress = (address: string | undefined): string => (address ?? '').replace(/^::ffff:/, '')
