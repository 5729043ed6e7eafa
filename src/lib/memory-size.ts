const units: Readonly<Record<string, number>> = { k: 1 / 1024, m: 1, g: 1024, t: 1024 * 1024 }

/** `4096`, `4g`, `512m` or `4GiB` as MiB, as people write it for Docker. Undefined for anything else. */
export function memoryInMB(text: string): number | undefined {
  const [, digits, unit = 'm'] = /^([1-9]\d{0,9})(?:([kmgt])(?:i?b)?)?$/i.exec(text.trim()) ?? []
  const memoryMB = digits === undefined ? undefined : Number(digits) * units[unit.toLowerCase()]!
  return memoryMB !== undefined && Number.isInteger(memoryMB) ? memoryMB : undefined
}
