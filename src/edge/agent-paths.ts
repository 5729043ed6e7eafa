/** The agent paths that are hidden from everyone outside. */
import { internalAgentPaths } from '../contract/constants.ts'

const internalSegments = new Set(internalAgentPaths.map((path) => path.slice(1)))

/**
 * True if any reading of the path, however a parser decodes or resolves it, could arrive at an internal
 * route. The agent's public paths never contain such a segment (file names are in the query), so rejecting
 * one anywhere in the path costs nothing.
 */
export function isInternalAgentPath(path: string): boolean {
  let text = path.split('?', 1)[0]!
  for (let pass = 0; text.includes('%'); pass++) {
    // No honest client encodes so deeply, and each further pass costs the length of the path.
    if (pass === 4) return true
    const decoded = text.replace(/%([0-9a-f]{2})/gi, (_, hex: string) =>
      String.fromCharCode(parseInt(hex, 16)),
    )
    if (decoded === text) break
    text = decoded
  }
  return text
    .replace(/[^!-~]/g, '')
    .toLowerCase()
    .split(/[/\\?#;]/)
    .some((segment) => internalSegments.has(segment))
}
