/**
 * Where a port of a sandbox is reached on the server with this URL. Below a domain every port has a name of its own; else
 * the server is one host, headers name the sandbox, and this is empty.
 */
export function sandboxOrigin(serverUrl: string, sandboxID: string, port: number): string {
  const { protocol, host } = new URL(serverUrl)
  const domain = /^api\.(.+)$/.exec(host)?.[1]
  return domain === undefined ? '' : `${protocol}//${port}-${sandboxID}.${domain}`
}
