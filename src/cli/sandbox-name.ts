/** Names that a person gives sandboxes. A name is metadata, so every client can read and set it. */
import { AppError } from '../lib/app-error.ts'
import type { TeamClient } from './team-client.ts'

export const nameKey = 'name'
export const namePattern = /^[A-Za-z0-9][\w.-]{0,127}$/
export const isSandboxID = (word: string): boolean => /^i[a-z0-9]{20}$/.test(word)

/** The id of the sandbox that a word names. A word that names none is passed on: the server says so. */
export async function sandboxIDOf(client: TeamClient, word: string): Promise<string> {
  if (isSandboxID(word) || !namePattern.test(word)) return word
  const found = await withName(client, word)
  if (found.length > 1) {
    const ids = found.join(', ')
    throw new AppError('conflict', `Several sandboxes have the name '${word}': ${ids}. Use an id.`)
  }
  return found[0] ?? word
}

/** A name of two sandboxes would be of no use. */
export async function requireFreeName(client: TeamClient, name: string | undefined): Promise<void> {
  if (name === undefined) return
  const [holder] = await withName(client, name)
  if (holder === undefined) return
  const how = `\`warren sandbox kill ${holder}\` frees it.`
  throw new AppError('already_exists', `The sandbox ${holder} has the name '${name}'. ${how}`)
}

async function withName(client: TeamClient, name: string): Promise<string[]> {
  const found = await client.listSandboxes({ metadata: `${nameKey}=${encodeURIComponent(name)}` })
  return found.map(({ sandboxID }) => sandboxID)
}
