/** Checks the options by which a client controls how its sandbox is reached. The edge applies them. */
import { agentPort } from '../ports/agent.ts'
import { invalidNetwork } from './invalid-network.ts'
import type { IngressOptions } from './network-options.ts'

const maxPorts = 128

export function checkIngress({ maskRequestHost, httpsPorts }: IngressOptions): void {
  if (maskRequestHost) checkMask(maskRequestHost)
  if (httpsPorts) checkPorts(httpsPorts)
}

function checkMask(mask: string): void {
  // The edge inserts the real port; any number serves to check whether the result is a host.
  const host = mask.replaceAll(/\$\{PORT\}/g, '8080')
  const match = /^([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?::(\d{1,5}))?$/.exec(host)
  const port = Number(match?.[2] ?? 1)
  if (match && match[1]!.length <= 253 && port >= 1 && port <= 65_535) return
  throw invalidNetwork(
    `invalid maskRequestHost ${mask}: it must be an ASCII host[:port], with \${PORT} for the port`,
  )
}

function checkPorts(ports: readonly number[]): void {
  if (ports.length > maxPorts) throw invalidNetwork(`httpsPorts may name at most ${maxPorts} ports`)
  if (new Set(ports).size < ports.length) throw invalidNetwork('httpsPorts names a port twice')
  const bad = ports.find((port) => !Number.isInteger(port) || port < 1 || port > 65_535)
  if (bad !== undefined) throw invalidNetwork(`httpsPorts: ${bad} is not a port; use 1 to 65535`)
  if (ports.includes(agentPort))
    throw invalidNetwork(`httpsPorts may not name ${agentPort}: it is the agent's own`)
}
