import { Type } from 'typebox'
import { failures } from '../../../contract/rest/shared.ts'
import { Template } from '../../../contract/rest/template.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentTemplate } from '../../present-template.ts'
import { templateSchema } from './template-schema.ts'

/** How much other teams use a template is not told. */
const untoldUse = { spawnCount: 0, buildCount: 0, lastSpawnedAt: null }

export function listDefaultTemplatesRoute(app: Api, context: RouteContext): void {
  app.get(
    '/default-templates',
    {
      onRequest: context.auth.requireTeam,
      schema: {
        ...templateSchema,
        summary: 'List the templates that every team has',
        response: { 200: Type.Array(Template), ...failures },
      },
    },
    async () => {
      const summaries = await context.templates.listDefaults()
      return summaries.map((summary) => ({ ...presentTemplate(summary), ...untoldUse }))
    },
  )
}
