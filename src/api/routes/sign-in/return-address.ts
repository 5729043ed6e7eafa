/** Where the command line listens: a port of the browser's own machine. A token must go nowhere else. */
export function returnAddress(text: string | undefined): URL | undefined {
  const url = URL.parse(text ?? '')
  const isLocal = url?.hostname === 'localhost' || url?.hostname === '127.0.0.1'
  const isBare = url?.username === '' && url.password === '' && url.port !== ''
  return url?.protocol === 'http:' && isLocal && isBare ? url : undefined
}
