/**
 * The first form of builds: the request contains the Dockerfile, and the start needs nothing more. The
 * command line that used it built and pushed an image itself; here the server runs the instructions.
 */
import { failures } from '../../../contract/rest/shared.ts'
import { type NewTemplateV1, TemplateLegacy } from '../../../contract/rest/template.ts'
import type { Team } from '../../../core/team/team.ts'
import type { BuildTarget } from '../../../core/template/build-service.ts'
import type { StartRequest } from '../../../core/template/start-request.ts'
import { DockerfileError } from '../../../lib/dockerfile/instructions.ts'
import { type DockerTemplate, parseDockerfile } from '../../../lib/dockerfile/parse.ts'
import type { RouteContext } from '../../context.ts'
import { requireOwnTeam } from './own-team.ts'
import { presentRequested, sizesOf } from './template-request.ts'
import { templateSchema } from './template-schema.ts'

export const dockerfileSchema = {
  ...templateSchema,
  deprecated: true,
  response: { 202: TemplateLegacy, ...failures },
}

export async function requestFromDockerfile(
  context: RouteContext,
  team: Team,
  { target, tags }: { target: BuildTarget; tags: string[] },
  body: NewTemplateV1,
): Promise<TemplateLegacy> {
  requireOwnTeam(team, body.teamID)
  // As with E2B's API, a build may be requested before anybody knows what it is made of.
  const parsed = body.dockerfile.trim() === '' ? undefined : parseDockerfile(body.dockerfile)
  const gpuCount = parsed?.gpuCount
  const sizes = sizesOf(context.sizes, { ...(gpuCount !== undefined && { gpuCount }), ...body })
  const startRequest = parsed ? startRequestOf(parsed, body) : null
  const made = await context.builds.request(team, target, tags, sizes, startRequest)
  return presentRequested(context, team, made)
}

function startRequestOf(
  { image, steps }: Pick<DockerTemplate, 'image' | 'steps'>,
  { startCmd, readyCmd }: NewTemplateV1,
): StartRequest {
  const copy = steps.find(({ source }) => source !== undefined)
  if (copy) {
    throw new DockerfileError(
      copy.line,
      'COPY and ADD need files, which this request cannot contain: use `warren template build` or Template.build.',
    )
  }
  return {
    from: { image },
    steps: steps.map(({ type, args }) => ({ type, args, filesHash: null, force: false })),
    // ENTRYPOINT and CMD of the Dockerfile never ran in sandboxes of such a template.
    startCmd: startCmd || null,
    readyCmd: readyCmd || null,
    force: false,
  }
}
