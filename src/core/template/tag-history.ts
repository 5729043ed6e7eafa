/** What the tags of one template have meant: assignments to ready builds, by tag and by page. */

export type ReadyAssignment = {
  /** Grows with each assignment of the template. */
  sequence: number
  tag: string
  buildID: string
  assignedAt: number
  buildCreatedAt: number
  buildFinishedAt: number | null
}

type TagOrder = 'latest_desc' | 'latest_asc' | 'name_asc' | 'name_desc'

type TagGroup = { tag: string; assignments: ReadyAssignment[]; hasMore: boolean }

type TagGroupQuery = {
  order: TagOrder
  /** A part of a tag's name. */
  search: string
  maxTags: number
  maxAssignments: number
  /** The last tag of the page before, with the sequence of its newest assignment at that time. */
  after?: { tag: string; sequence: number }
}

/** One page of tags. `assignments` are newest first; each tag gets its newest ones. */
export function pageOfTags(
  assignments: readonly ReadyAssignment[],
  { order, search, maxTags, maxAssignments, after }: TagGroupQuery,
): { groups: TagGroup[]; last?: { tag: string; sequence: number } } {
  const wanted = search.trim().toLowerCase()
  const all = Array.from(
    Map.groupBy(assignments, ({ tag }) => tag),
    ([tag, ofTag]) => ({ tag, sequence: ofTag[0]!.sequence, ofTag }),
  ).filter(({ tag }) => tag.includes(wanted))
  const compare = comparisons[order]
  all.sort(compare)
  const rest = after ? all.filter((one) => compare(one, after) > 0) : all
  const page = rest.slice(0, maxTags)
  const groups = page.map(({ tag, ofTag }) => ({
    tag,
    assignments: ofTag.slice(0, maxAssignments),
    hasMore: ofTag.length > maxAssignments,
  }))
  const end = page.at(-1)
  if (rest.length <= maxTags || !end) return { groups }
  return { groups, last: { tag: end.tag, sequence: end.sequence } }
}

type TagPosition = { tag: string; sequence: number }
const byName = (one: TagPosition, other: TagPosition) =>
  Number(one.tag > other.tag) - Number(one.tag < other.tag)
const byAge = (one: TagPosition, other: TagPosition) => one.sequence - other.sequence
const comparisons: Record<TagOrder, (one: TagPosition, other: TagPosition) => number> = {
  latest_asc: byAge,
  latest_desc: (one, other) => byAge(other, one),
  name_asc: byName,
  name_desc: (one, other) => byName(other, one),
}
