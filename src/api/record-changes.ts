/** Opens a line of the audit for each request to change something, and closes it with the answer. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { PendingChange } from '../core/audit/audit-line.ts'
import type { AuditTrail } from '../core/audit/audit-trail.ts'
import { onBehalfOfChange } from '../core/audit/current-change.ts'
import { labelOf } from '../core/team/key-grants.ts'
import type { TeamService } from '../core/team/service.ts'
import type { Caller } from '../core/team/team.ts'
import { actionOf, objectIn, objectMade } from './actions.ts'
import type { Authenticator } from './auth.ts'
import { errorBody } from './error-handler.ts'
import type { SignedIn } from './session-callers.ts'

type RecorderParts = {
  audit: AuditTrail
  auth: Authenticator
  teams: Pick<TeamService, 'getTeam'>
  /** True if another node answers the client, and has the line. */
  isPart(request: FastifyRequest): boolean
}

export function recordChanges(app: FastifyInstance, { audit, auth, teams, isPart }: RecorderParts): void {
  const findTeam = (word: string) => teams.getTeam(word).catch(() => undefined)
  const changes = new WeakMap<FastifyRequest, PendingChange>()
  const made = new WeakMap<FastifyRequest, string>()
  const answered = new WeakSet<FastifyRequest>()
  const open = async (request: FastifyRequest): Promise<PendingChange | undefined> => {
    const action = actionOf(request)
    if (action === undefined || isPart(request)) return undefined
    const line = lineOf(request, action, auth)
    // The operator may name a team by its slug.
    const { teamID } = line
    const team = teamID === null || auth.callerOf(request) ? undefined : await findTeam(teamID)
    const change = audit.open({ ...line, teamID: team?.teamID ?? teamID })
    changes.set(request, change)
    return change
  }
  // The request is authorized, and nothing is changed yet.
  app.addHook('preHandler', (request, _, done) => {
    open(request).then((change) => (change ? onBehalfOfChange(change, done) : done()), done)
  })
  app.addHook('preSerialization', async (request, _, payload) => {
    const object = changes.has(request) ? objectMade(payload) : null
    if (object !== null) made.set(request, object)
    return payload
  })
  // A request that another node answers gets its line there.
  app.addHook('onSend', async (request) => void answered.add(request))
  app.addHook('onResponse', async (request, reply) => {
    if (!answered.has(request)) return
    const change = changes.get(request) ?? (await open(request))
    if (change) audit.close(change, reply.statusCode, made.get(request) ?? null)
  })
}

function lineOf(request: FastifyRequest, action: string, auth: Authenticator) {
  const object = objectIn(request.params)
  const shared = { action, object, address: auth.addressOf(request), requestID: request.id }
  const caller = auth.callerOf(request)
  if (caller) return { ...shared, ...whoOf(caller) }
  const { teamID = null } = (request.params ?? {}) as { teamID?: string }
  const signedIn = auth.findSignedIn(request)
  if (signedIn) return { ...shared, ...whoOfSession(signedIn), teamID }
  if (!auth.isOfAdmin(request)) return { ...shared, ...nobody, teamID: null }
  return { ...shared, ...nobody, credential: 'admin token' as const, teamID }
}

const nobody = { personID: null, person: null, credential: 'none' as const, credentialID: null }

const whoOfSession = ({ person, session }: SignedIn) => ({
  personID: person.personID,
  person: person.email ?? person.name,
  credential: 'session' as const,
  credentialID: session.sessionID,
})

const whoOf = (caller: Caller) => ({
  teamID: caller.team.teamID,
  personID: caller.person?.personID ?? null,
  person: caller.person && labelOf(caller),
  credential: caller.credential.kind,
  credentialID: caller.credential.id,
})

/** For routes that find out themselves who the caller is: does the work with a line of its own. */
export async function recordedFor<T>(
  { audit, auth }: Pick<RecorderParts, 'audit' | 'auth'>,
  request: FastifyRequest,
  { caller, action, object = null }: { caller: Caller; action: string; object?: string | null },
  work: () => Promise<T>,
): Promise<T> {
  const line = { action, object, address: auth.addressOf(request), requestID: request.id, ...whoOf(caller) }
  const change = audit.open(line)
  try {
    const result = await onBehalfOfChange(change, work)
    audit.close(change, 200)
    return result
  } catch (error) {
    audit.close(change, errorBody(error).code)
    throw error
  }
}
