/** Splits `host:port`; an IPv6 address is in brackets. */
export function splitAddress(text: string): { host: string; port: number } {
  const at = text.lastIndexOf(':')
  return { host: text.slice(0, at).replace(/^\[(.*)\]$/, '$1'), port: Number(text.slice(at + 1)) }
}

/** Where a node listens for its peers. */
export const peerPort = (settings: {
  peerAddress: string | null
  peerListen: string | null
}): { host: string; port: number } =>
  splitAddress(settings.peerListen ?? `0.0.0.0:${splitAddress(settings.peerAddress!).port}`)
