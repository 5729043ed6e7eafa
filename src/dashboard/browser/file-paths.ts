/** Paths and entries of folders, of sandboxes and volumes alike. */
export type FolderEntry = {
  name: string
  path: string
  size: number
  mode: number
  isFolder: boolean
  modifiedAt?: number
}

export const joinPath = (folder: string, name: string): string => `${folder === '/' ? '' : folder}/${name}`

/** The folders above a path, each with its own: `/`, then `/home`, then `/home/user`. */
export function trailOf(path: string): { name: string; path: string }[] {
  const names = path.split('/').filter((name) => name !== '')
  return [
    { name: '/', path: '/' },
    ...names.map((name, at) => ({ name, path: `/${names.slice(0, at + 1).join('/')}` })),
  ]
}

/** Folders first, then by name. */
export function sortEntries(entries: readonly FolderEntry[]): FolderEntry[] {
  return [...entries].sort((a, b) => Number(b.isFolder) - Number(a.isFolder) || (a.name < b.name ? -1 : 1))
}

/** Whether bytes can be edited as text: no NUL, and whole UTF-8. */
export function textOf(content: Uint8Array): string | undefined {
  if (content.includes(0)) return undefined
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(content)
  } catch {
    return undefined
  }
}
