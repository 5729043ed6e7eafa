import type { MemoryUse } from '../../ports/driver.ts'

/**
 * What sandboxes use and can still get is shared out in proportion to what each was promised: whoever stays small lends the rest
 * of its share to others, and gets it back before anything is taken from itself. Beyond it are those that use more, and, where
 * so many bytes are wanted back, as many of the next as have them: many may grow side by side with none beyond its share.
 * Returns the bytes beyond, the most first.
 */
export function beyondShare(
  uses: readonly MemoryUse[],
  { roomBytes, wantedBytes }: { roomBytes: number; wantedBytes: number },
): Map<string, number> {
  const sum = (key: 'usedBytes' | 'promisedBytes') => uses.reduce((total, use) => total + use[key], 0)
  const perByte = Math.min(1, Math.max(0, sum('usedBytes') + roomBytes) / Math.max(1, sum('promisedBytes')))
  const beyond = new Map<string, number>()
  let wanted = wantedBytes
  const all = uses.map((use) => ({ ...use, bytes: use.usedBytes - use.promisedBytes * perByte }))
  for (const { sandboxID, usedBytes, bytes } of all.sort((a, b) => b.bytes - a.bytes)) {
    if (bytes > 0 || wanted > 0) beyond.set(sandboxID, bytes)
    wanted -= usedBytes
  }
  return beyond
}
