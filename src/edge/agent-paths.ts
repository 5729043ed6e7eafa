/** Which agent paths stay hidden from everyone outside. */
import { internalAgentPaths } from '../contract/constants.ts'

const internalSegments = new Set(internalAgentPaths.map((path) => path.slice(1)))

/**
 * True when any reading of the path, however a parser decodes or resolves it, could arrive at an internal
 * route. The agent's public paths never hold such a segment (file names travel in the query), so refusing one
 * anywhere in the path costs nothing.
 */
export function isInternalAgentPath(path: string): boolean {
  let text = path.split('?', 1)[0]!
  for (let pass = 0; text.includes('%'); pass++) {
    // Nobody encodes so deeply in good faith, and each further pass costs the length of the path.
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
