import { failures } from '../../../contract/rest/shared.ts'
import {
  NewTemplate,
  NewTemplateV2,
  RequestedTemplate,
  TemplateLegacy,
} from '../../../contract/rest/template.ts'
import type { Team } from '../../../core/team/team.ts'
import { type NewBuild, tagsOf } from '../../../core/template/build-service.ts'
import { fullName } from '../../../core/template/catalog.ts'
import { parseTag } from '../../../core/template/reference.ts'
import { parseOwnName } from '../../../core/template/service.ts'
import { AppError } from '../../../lib/app-error.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentTemplate } from '../../present-template.ts'

const longestName = 128

type Wanted = { cpuCount?: number; memoryMB?: number; minFreeDiskMb?: number }

export function requestTemplateRoutes(app: Api, context: RouteContext): void {
  const schema = { tags: ['templates'], security: [{ ApiKeyAuth: [] }] }
  const request = (team: Team, name: string, tags: string[], wanted: Wanted): Promise<NewBuild> => {
    if (name.length > longestName) {
      throw new AppError('invalid_argument', `Invalid name: at most ${longestName} characters are allowed`)
    }
    const parsed = parseOwnName(team, name)
    return context.builds.request(team, parsed, tagsOf(parsed, tags.map(parseTag)), sizesOf(context, wanted))
  }

  app.post(
    '/v3/templates',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...schema,
        summary: 'Request a build of a template',
        body: NewTemplate,
        response: { 202: RequestedTemplate, ...failures },
      },
    },
    async (incoming, reply) => {
      const { body } = incoming
      const team = context.auth.teamOf(incoming)
      const name = body.name ?? body.alias
      if (name === undefined || name.trim() === '') throw new AppError('invalid_argument', 'Name is required')
      const { template, build, names, tags } = await request(team, name, body.tags ?? [], body)
      return reply.code(202).send({
        templateID: template.templateID,
        buildID: build.buildID,
        public: template.public,
        names: names.map(fullName),
        tags,
        aliases: names.map(({ alias }) => alias),
      })
    },
  )

  app.post(
    '/v2/templates',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...schema,
        summary: 'Request a build of a template',
        deprecated: true,
        body: NewTemplateV2,
        response: { 202: TemplateLegacy, ...failures },
      },
    },
    async (incoming, reply) => {
      const team = context.auth.teamOf(incoming)
      const { template, build } = await request(team, incoming.body.alias, [], incoming.body)
      const page = { limit: 1 }
      const { summary } = await context.templates.read(team, template.templateID, page)
      const { cpuCount, memoryMB, diskMB, envdVersion, buildID } = build
      const { names: _names, buildStatus: _status, ...shown } = presentTemplate(summary)
      const own = { cpuCount, memoryMB, diskSizeMB: diskMB, envdVersion, buildID }
      return reply.code(202).send({ ...shown, ...own })
    },
  )
}

function sizesOf({ sizes }: RouteContext, wanted: Wanted) {
  const cpuCount = wanted.cpuCount ?? sizes.cpu.usual
  const memoryMB = wanted.memoryMB ?? sizes.memoryMB.usual
  const diskMB = sizes.diskMB.usual + (wanted.minFreeDiskMb ?? 0)
  const refuse = (message: string) => new AppError('invalid_argument', message)
  if (cpuCount < 1 || (cpuCount !== 1 && cpuCount % 2 !== 0)) {
    throw refuse(`CPU count must be 1 or an even number, not ${cpuCount}`)
  }
  if (cpuCount > sizes.cpu.most) throw refuse(`CPU count exceeds the maximum of ${sizes.cpu.most}`)
  if (memoryMB < 128) throw refuse(`Memory must be at least 128 MiB, not ${memoryMB}`)
  if (memoryMB % 2 !== 0) throw refuse(`Memory must be an even number of MiB, not ${memoryMB}`)
  if (memoryMB > sizes.memoryMB.most) throw refuse(`Memory exceeds the maximum of ${sizes.memoryMB.most} MiB`)
  if (diskMB > sizes.diskMB.most) throw refuse(`Disk exceeds the maximum of ${sizes.diskMB.most} MiB`)
  return { cpuCount, memoryMB, diskMB }
}
