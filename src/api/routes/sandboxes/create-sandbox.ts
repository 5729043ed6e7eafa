import type { FastifyRequest } from 'fastify'
import { header } from '../../../contract/constants.ts'
import { NewSandbox, Sandbox } from '../../../contract/rest/sandbox.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { PlacedRequest } from '../../../core/cluster/placer.ts'
import type { IdempotencyClaim } from '../../../core/sandbox/row/sandbox-store.ts'
import type { SandboxTokens } from '../../../core/sandbox/row/tokens.ts'
import type { CreateRequest } from '../../../core/sandbox/verbs/creator.ts'
import { AppError } from '../../../lib/app-error.ts'
import { textHeader } from '../../auth.ts'
import type { Api, RouteContext } from '../../context.ts'
import { exchangeOf } from '../../pass-on.ts'
import { presentSandbox } from '../../present.ts'
import { onDemandOf, requireTemplate } from '../templates/on-demand.ts'
import { olderClient, olderClientRejected } from './older-client.ts'
import { sandboxSchema } from './sandbox-schema.ts'
import { refuseUnavailable } from './unavailable-options.ts'

const versions = [
  { path: '/sandboxes', defaultTimeoutSeconds: 15 },
  { path: '/v2/sandboxes', defaultTimeoutSeconds: 300 },
]

export function createSandboxRoutes(app: Api, context: RouteContext): void {
  for (const { path, defaultTimeoutSeconds } of versions) {
    app.post(
      path,
      {
        onRequest: context.auth.requireTeam,
        schema: {
          ...sandboxSchema,
          summary: 'Create a sandbox from a template',
          body: NewSandbox,
          response: { 201: Sandbox, ...failures },
        },
      },
      async (request, reply) => {
        const { body } = request
        refuseUnavailable(body)
        const team = context.auth.teamOf(request)
        const older = olderClient(request.headers, body)
        const isAllowed = context.allowOlderClients || team.olderClients
        if (older && !isAllowed && !older.runsCommands) throw olderClientRejected(older.name, team.slug)
        const key = idempotencyKey(request)
        const exchange = exchangeOf(request, reply)
        const wanted = onDemandOf(context, body)
        const template = wanted ? await requireTemplate(context, team, wanted) : body.templateID
        const placed = placedRequest(body, template, key)
        const placement = await context.cluster?.placer.placeCreate(team, placed, exchange)
        if (placement?.isAnswered) return reply.hijack()
        const claim = claimOf(key, placement?.attemptKey, request, context.tokens)
        const create = toCreateRequest(body, template, defaultTimeoutSeconds)
        create.ownerPersonID = context.auth.requiredCallerOf(request).person?.personID
        // E2B's API secures every sandbox too; clients of Python before 2.0 send `secure: false` whatever their caller wants.
        if (!context.allowInsecureSandboxes) create.options.secure = true
        if (older && isAllowed) create.options.tokenInHost = true
        const { sandboxes } = context
        const created = placement?.earlier
          ? await sandboxes.createdBy(placement.earlier, claim)
          : await sandboxes.create(team, create, claim)
        context.cluster?.forwarder.reportMade(exchange, [created.sandboxID])
        const shown = presentSandbox(created, context, request)
        if (older?.needsLongID && isAllowed) shown.sandboxID = `${shown.sandboxID}-${shown.clientID}`
        return reply.code(201).send(shown)
      },
    )
  }
}

/** The parts of the request that decide on which node of a cluster the sandbox is created. */
function placedRequest(body: NewSandbox, template: string, key: string | undefined): PlacedRequest {
  return {
    template,
    volumeNames: body.volumeMounts?.map(({ name }) => name) ?? [],
    metadata: body.metadata ?? {},
    idempotencyKey: key,
    body: () => Buffer.from(JSON.stringify(body)),
  }
}

function toCreateRequest(body: NewSandbox, template: string, defaultTimeoutSeconds: number): CreateRequest {
  return {
    template,
    timeoutMs: (body.timeout ?? defaultTimeoutSeconds) * 1000,
    metadata: body.metadata ?? {},
    envVars: body.envVars ?? {},
    volumeMounts: body.volumeMounts ?? [],
    options: {
      allowInternetAccess: body.allow_internet_access ?? null,
      network: body.network ?? null,
      autoPause: body.autoPause ?? false,
      autoPauseMemory: body.autoPauseMemory ?? true,
      autoResume: body.autoResume?.enabled ?? false,
      secure: body.secure ?? true,
    },
  }
}

function idempotencyKey(request: FastifyRequest): string | undefined {
  const key = textHeader(request, header.idempotencyKey)
  if (key === undefined || /^[a-z0-9-]{1,255}$/.test(key)) return key
  throw new AppError('invalid_argument', 'Invalid Idempotency-Key: use 1 to 255 of a-z, 0-9 and -')
}

function claimOf(
  clientKey: string | undefined,
  attemptKey: string | undefined,
  { body }: FastifyRequest,
  tokens: SandboxTokens,
): IdempotencyClaim | undefined {
  const key = clientKey ?? attemptKey
  if (key === undefined) return undefined
  return { key, attemptKey, requestHash: tokens.requestHash(JSON.stringify(body)) }
}
