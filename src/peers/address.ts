/** Splits `host:port`; an IPv6 address is in brackets. */
export function splitAddress(text: string): { host: string; port: number } {
  const at = text.lastIndexOf(':')
  return { host: text.slice(0, at).replace(/^\[(.*)\]$/, '$1'), port: Number(text.slice(at + 1)) }
}
