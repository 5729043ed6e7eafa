import { Empty, failures } from '../../../contract/rest/shared.ts'
import { BuildPath, type Credentials, StartBuild } from '../../../contract/rest/template.ts'
import type { RegistryCredentials } from '../../../core/ports/images.ts'
import type { StartRequest } from '../../../core/template/start-request.ts'
import { type BuildStep, stepTypes } from '../../../core/template/start-request.ts'
import { AppError } from '../../../lib/app-error.ts'
import type { Api, RouteContext } from '../../context.ts'
import { exchangeOf } from '../../pass-on.ts'
import { parseBuildID } from './build-id.ts'
import { templateSchema } from './template-schema.ts'

export function startBuildRoute(app: Api, context: RouteContext): void {
  app.post(
    '/v2/templates/:templateID/builds/:buildID',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...templateSchema,
        summary: 'Start a build that was requested',
        params: BuildPath,
        body: StartBuild,
        response: { 202: Empty, ...failures },
      },
    },
    async (request, reply) => {
      const { templateID } = request.params
      const buildID = parseBuildID(request.params.buildID, 'Invalid build ID')
      const team = context.auth.teamOf(request)
      const start = toRequest(request.body)
      const placed = { buildID, start, body: () => Buffer.from(JSON.stringify(request.body)) }
      if (await context.cluster?.buildPlacer.placeBuild(team, placed, exchangeOf(request, reply)))
        return reply.hijack()
      await context.builds.start(team, templateID, buildID, start)
      return reply.code(202).send(undefined)
    },
  )
}

function toRequest(body: StartBuild): StartRequest {
  return {
    from: sourceOf(body),
    steps: (body.steps ?? []).map(stepOf),
    startCmd: body.startCmd || null,
    readyCmd: body.readyCmd || null,
    force: body.force ?? false,
  }
}

function sourceOf({ fromImage, fromTemplate, fromImageRegistry }: StartBuild): StartRequest['from'] {
  if (Boolean(fromImage) === Boolean(fromTemplate)) {
    throw new AppError('invalid_argument', 'Give either fromImage or fromTemplate, and not both')
  }
  if (fromTemplate) return { template: fromTemplate }
  return {
    image: fromImage!,
    ...(fromImageRegistry && { credentials: credentialsOf(fromImageRegistry) }),
  }
}

function credentialsOf(given: Credentials): RegistryCredentials {
  switch (given.type) {
    case 'registry':
      return given
    case 'aws':
      return {
        type: 'aws',
        accessKeyID: given.awsAccessKeyId,
        secretAccessKey: given.awsSecretAccessKey,
        region: given.awsRegion,
      }
    case 'gcp':
      return { type: 'gcp', serviceAccountJSON: given.serviceAccountJson }
  }
}

function stepOf(step: NonNullable<StartBuild['steps']>[number], index: number): BuildStep {
  const type = stepTypes.find((known) => known === step.type)
  if (!type) {
    throw new AppError(
      'invalid_argument',
      `Step ${index + 1} has the unknown type '${step.type.slice(0, 32)}'; use one of ${stepTypes.join(', ')}`,
    )
  }
  const args = step.args ?? []
  if (args.length === 0 && type !== 'ENV') {
    throw new AppError('invalid_argument', `Step ${index + 1} (${type}) needs arguments`)
  }
  return { type, args, filesHash: step.filesHash ?? null, force: step.force ?? false }
}
