/**
 * The address where `e2b auth login` waits for its token: a port of the browser's machine that the system
 * chose. It is compared literally, so that no other spelling of an address, no user name and no path can lead
 * elsewhere.
 */
import type { FastifyRequest } from 'fastify'

/** The only form that the command line sends. Systems choose no port below 1024. */
const form = /^http:\/\/(?:localhost|127\.0\.0\.1):([1-9]\d{3,4})\/?$/

/**
 * Undefined unless the text is such an address. A port on which this server answers is rejected: a request to
 * it may lead to a sandbox.
 */
export function returnAddress(text: string | undefined, ownPorts: Set<number>): URL | undefined {
  const port = Number(form.exec(text ?? '')?.[1])
  if (!(port >= 1024 && port <= 65535) || ownPorts.has(port)) return undefined
  return new URL(text!)
}

/**
 * The port that listens, and those by which others reach it: that of the domain, and that in the browser's
 * request.
 */
export function portsOfServer(
  request: FastifyRequest,
  { port, domain }: { port: number; domain: string | undefined },
): Set<number> {
  const named = [request.host, domain ?? ''].map((host) => Number(/:(\d+)$/.exec(host)?.[1]))
  return new Set([port, ...named].filter((found) => found > 0))
}
