/** Domain to wire. */
import type { FastifyRequest } from 'fastify'
import { clientID } from '../contract/constants.ts'
import type * as wire from '../contract/rest/sandbox.ts'
import type { ApiKey as WireKey, Team as WireTeam } from '../contract/rest/team.ts'
import { shownNetwork } from '../core/network-policy/network-options.ts'
import type { SandboxMetric } from '../core/sandbox/monitoring/metric.ts'
import { type Sandbox, wireStates } from '../core/sandbox/row/sandbox.ts'
import type { SandboxTokens } from '../core/sandbox/row/tokens.ts'
import type { ApiKey, Team } from '../core/team/team.ts'
import type { Authenticator } from './auth.ts'

/** By which sandboxes are entered. */
type ShownTokens = Pick<SandboxTokens, 'agentOf' | 'trafficOf' | 'hostOf'>
type PresentParts = { tokens: ShownTokens; domain: string | undefined }

/** For those who may see sandboxes and not enter them. */
const noTokens: ShownTokens = {
  agentOf: () => null,
  trafficOf: () => null,
  hostOf: () => undefined,
}

export function presentSandbox(sandbox: Sandbox, parts: PresentParts, request: FastifyRequest): wire.Sandbox {
  const { sandboxID } = sandbox
  const envdAccessToken = parts.tokens.agentOf(sandbox)
  const trafficAccessToken = parts.tokens.trafficOf(sandbox)
  return {
    templateID: sandbox.templateID,
    sandboxID,
    clientID: parts.tokens.hostOf(sandbox) ?? clientID,
    envdVersion: sandbox.envdVersion,
    ...(sandbox.alias && { alias: sandbox.alias }),
    ...(envdAccessToken !== null && { envdAccessToken }),
    ...(trafficAccessToken !== null && { trafficAccessToken }),
    domain: domainFor(parts.domain, request),
  }
}

export function presentListed(sandbox: Sandbox, tokens: ShownTokens): wire.ListedSandbox {
  const { volumeMounts } = sandbox.options
  return {
    templateID: sandbox.templateID,
    sandboxID: sandbox.sandboxID,
    // An older client makes the name of the sandbox's host from a list too.
    clientID: tokens.hostOf(sandbox) ?? clientID,
    startedAt: dateTime(sandbox.startedAt),
    endAt: dateTime(sandbox.endAt),
    cpuCount: sandbox.cpuCount,
    memoryMB: sandbox.memoryMB,
    diskSizeMB: sandbox.diskMB,
    ...(sandbox.gpuCount && { gpuCount: sandbox.gpuCount }),
    state: isPaused(sandbox) ? 'paused' : 'running',
    envdVersion: sandbox.envdVersion,
    ...(sandbox.alias && { alias: sandbox.alias }),
    metadata: sandbox.metadata,
    ...(volumeMounts && { volumeMounts: volumeMounts.map(({ name, path }) => ({ name, path })) }),
    ...(isPaused(sandbox) && sandbox.snapshot?.agentUnresponsive && { envdUnresponsiveAtPause: true }),
  }
}

export function presentDetail(
  sandbox: Sandbox,
  parts: PresentParts,
  request: FastifyRequest,
): wire.SandboxDetail {
  const { options, snapshot } = sandbox
  const envdAccessToken = parts.tokens.agentOf(sandbox)
  return {
    ...presentListed(sandbox, parts.tokens),
    ...(envdAccessToken !== null && { envdAccessToken }),
    allowInternetAccess: options.allowInternetAccess,
    domain: isPaused(sandbox) ? null : domainFor(parts.domain, request),
    ...(options.network && { network: shownNetwork(options.network) }),
    ...(sandbox.state === 'paused' && { pauseMode: snapshot?.memory ? 'full' : 'filesystem' }),
    ...(isPaused(sandbox) &&
      snapshot?.timeLeftMs !== undefined && { timeLeft: Math.ceil(snapshot.timeLeftMs / 1000) }),
    lifecycle: { autoResume: options.autoResume, onTimeout: options.autoPause ? 'pause' : 'kill' },
  }
}

export function presentMetric(metric: SandboxMetric): wire.SandboxMetric {
  return {
    timestamp: dateTime(metric.at),
    timestampUnix: Math.floor(metric.at / 1000),
    cpuCount: metric.cpuCount,
    cpuUsedPct: metric.cpuUsedPct,
    memUsed: metric.memoryUsedBytes,
    memTotal: metric.memoryTotalBytes,
    memCache: metric.memoryCacheBytes,
    diskUsed: metric.diskUsedBytes,
    diskTotal: metric.diskTotalBytes,
    ...(metric.gpu && {
      gpuUsedPct: metric.gpu.busyPct,
      gpuMemUsed: metric.gpu.memoryUsedBytes,
      gpuMemTotal: metric.gpu.memoryTotalBytes,
    }),
  }
}

export function presentTeam(team: Team): WireTeam {
  return { ...team, createdAt: dateTime(team.createdAt) }
}

export function presentKey(key: ApiKey): WireKey {
  return {
    id: key.keyID,
    name: key.name,
    mask: presentMask('e2b_', key),
    createdAt: dateTime(key.createdAt),
    ...(key.lastUsedAt !== null && { lastUsed: dateTime(key.lastUsedAt) }),
    ...(key.lastUsedFrom !== null && { lastUsedFrom: key.lastUsedFrom }),
    role: key.role,
    ...(key.madeBy !== null && { madeBy: key.madeBy }),
    ...(key.personID !== null && { createdBy: { id: key.personID, email: key.madeBy ?? '' } }),
    ...(key.expiresAt !== null && { expiresAt: dateTime(key.expiresAt) }),
  }
}

/** The part of a secret that may be shown after its creation. */
export function presentMask(
  prefix: string,
  { maskPrefix, maskSuffix }: Pick<ApiKey, 'maskPrefix' | 'maskSuffix'>,
): WireKey['mask'] {
  return { prefix, valueLength: 40, maskedValuePrefix: maskPrefix, maskedValueSuffix: maskSuffix }
}

/** By which the caller may enter sandboxes. */
export const tokensFor = (
  { auth, tokens }: { auth: Pick<Authenticator, 'mayEnter'>; tokens: SandboxTokens },
  request: FastifyRequest,
): ShownTokens => (auth.mayEnter(request) ? tokens : noTokens)

export const dateTime = (ms: number): string => new Date(ms).toISOString()
const isPaused = (sandbox: Sandbox): boolean => wireStates.paused.some((state) => state === sandbox.state)

/**
 * Clients build the host names of sandboxes from the domain. Without a configured domain, a client on this
 * machine gets one that browsers and curl resolve to loopback; other clients get none.
 */
export function domainFor(configured: string | undefined, request: FastifyRequest): string | null {
  if (configured !== undefined) return configured
  const match = /^(?:localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/.exec(request.headers.host ?? '')
  return match ? `localhost${match[1] ?? ''}` : null
}
