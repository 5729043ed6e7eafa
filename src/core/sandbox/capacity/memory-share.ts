import type { MemoryUse } from '../../ports/driver.ts'

/**
 * Returns the sandboxes that are beyond their share of memory, with the bytes beyond it, the most first. All memory that
 * sandboxes use or can still get is divided in proportion to the memory promised to each. A small sandbox lends the rest
 * of its share to others, and gets it back before Warren acts against it. If many sandboxes grow side by side, none may
 * exceed its share; so the result has further sandboxes, the largest first, until together they use `wantedBytes`.
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
