/** Which users of this machine may act as users of sandboxes, because /etc/subuid gives them the same ids. */
import { mappedIDs } from '../../host/namespace/mapped-ids.ts'

/** Names of these users. A line is `name:first:count`. */
export function usersWithIDs(subuid: string, firstID: number): string[] {
  const names = subuid.split('\n').flatMap((line) => {
    const [, name, first, count] = /^([^:#]+):(\d+):(\d+)\s*$/.exec(line) ?? []
    const overlaps = Number(first) < firstID + mappedIDs && Number(first) + Number(count) > firstID
    return name !== undefined && overlaps ? [name] : []
  })
  return [...new Set(names)]
}
