/**
 * Where `e2b auth login` waits for its token: a port of the browser's own machine that the system chose for it. It is
 * compared as it is spelled, so that no other spelling of an address, no user name and no path can lead elsewhere.
 */
import type { FastifyRequest } from 'fastify'

/** The one form that the command line sends. Systems choose no port below 1024 by themselves. */
const form = /^http:\/\/(?:localhost|127\.0\.0\.1):([1-9]\d{3,4})\/?$/

/**
 * Undefined unless the text is such an address. A port on which this server answers is none: a request to it may lead to
 * a sandbox.
 */
export function returnAddress(text: string | undefined, ownPorts: Set<number>): URL | undefined {
  const port = Number(form.exec(text ?? '')?.[1])
  if (!(port >= 1024 && port <= 65535) || ownPorts.has(port)) return undefined
  return new URL(text!)
}

/** The port that listens, and those by which others reach it: of the domain, and as this browser spells it. */
export function portsOfServer(
  request: FastifyRequest,
  { port, domain }: { port: number; domain: string | undefined },
): Set<number> {
  const named = [request.host, domain ?? ''].map((host) => Number(/:(\d+)$/.exec(host)?.[1]))
  return new Set([port, ...named].filter((found) => found > 0))
}
