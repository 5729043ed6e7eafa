/** Parses the output of `nft list table`, to compare the kernel's table with the intended one. */
import { parseRange } from '../../../lib/ipv4.ts'
import { countedSets } from './flow-shares.ts'
import { elementsOf, type Limited, type OwnSet, ownSets, rangeElement } from './ruleset.ts'

/** What the kernel itself fills, and the owners of sandboxes, which decide about no packet but the first of a connection. */
const uncompared: readonly string[] = [...countedSets, 'owners']

export type ListedTable = {
  /** Everything that is the same for all sandboxes, as text. */
  shared: string
  /** The elements of the per-sandbox sets, each in the form of `elementsOf`. */
  own: Record<OwnSet, ReadonlySet<string>>
}

export function readListedTable(text: string): ListedTable {
  const own = Object.fromEntries(ownSets.map((set) => [set, new Set<string>()])) as Record<
    OwnSet,
    Set<string>
  >
  const isOwn = (name: string): name is OwnSet => Object.hasOwn(own, name)
  const shared = text.replace(
    /^(\t(?:set|map) (\S+) \{[^{}]*?)(\s*elements = \{([^{}]*)\})/gm,
    (all, before: string, name: string, _, elements: string) => {
      if (uncompared.includes(name)) return before
      if (!isOwn(name)) return all
      for (const element of elements.split(',')) own[name].add(plainElement(element))
      return before
    },
  )
  return { shared, own }
}

export function holdsExactly({ own }: ListedTable, limited: readonly Limited[]): boolean {
  const all = limited.map(elementsOf)
  return ownSets.every((set) => {
    const wanted = new Set(all.flatMap((elements) => elements[set]))
    return wanted.size === own[set].size && [...wanted].every((element) => own[set].has(element))
  })
}

/** nft writes a range that is a network in CIDR form. */
function plainElement(element: string): string {
  const [address = '', other] = element.trim().split(' . ')
  const [first = '', last = first] = other?.split('-') ?? []
  const [from, to] = [parseRange(first), parseRange(last)]
  // A port, or an address alone.
  if (!from || !to) return element.trim()
  return `${address} . ${rangeElement({ first: from.first, last: to.last })}`
}
