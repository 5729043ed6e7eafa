/** IPv4 arithmetic: addresses as numbers, networks as ranges of them. */

/** A range that includes both ends. */
export type AddressRange = { first: number; last: number }

/** Undefined if the text is not a dotted address in its canonical spelling. */
export function addressToNumber(text: string): number | undefined {
  const match = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(text)
  if (!match) return undefined
  const parts = match.slice(1)
  // A leading zero means octal to some programs and nothing to others.
  if (parts.some((part) => Number(part) > 255 || (part.length > 1 && part.startsWith('0')))) return undefined
  return parts.reduce((sum, part) => sum * 256 + Number(part), 0)
}

export function numberToAddress(address: number): string {
  return [24, 16, 8, 0].map((shift) => (address >>> shift) & 255).join('.')
}

/** An address, or a network as address/prefix; what the address has beyond the prefix does not count. */
export function parseRange(text: string): AddressRange | undefined {
  const [address = '', prefix, ...rest] = text.split('/')
  const start = addressToNumber(address)
  if (start === undefined || rest.length > 0) return undefined
  if (prefix === undefined) return { first: start, last: start }
  if (!/^(?:\d|[12]\d|3[0-2])$/.test(prefix)) return undefined
  const size = 2 ** (32 - Number(prefix))
  const first = start - (start % size)
  return { first, last: first + size - 1 }
}

/** The same addresses in ranges that neither touch nor overlap, in ascending order. */
export function mergeRanges(ranges: readonly AddressRange[]): AddressRange[] {
  const merged: AddressRange[] = []
  for (const { first, last } of ranges.toSorted((a, b) => a.first - b.first)) {
    const before = merged.at(-1)
    if (before && first <= before.last + 1) before.last = Math.max(before.last, last)
    else merged.push({ first, last })
  }
  return merged
}

export function isWithin(address: number, ranges: readonly AddressRange[]): boolean {
  return ranges.some(({ first, last }) => first <= address && address <= last)
}
