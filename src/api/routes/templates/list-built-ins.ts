import { Type } from 'typebox'
import { BuiltInTemplate } from '../../../contract/rest/built-in.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { presentBase, presentBuiltIn } from '../../present-template.ts'
import { templateSchema } from './template-schema.ts'

export function listBuiltInsRoute(app: Api, { auth, builtIns, templates }: RouteContext): void {
  app.get(
    '/built-in-templates',
    {
      onRequest: auth.requireTeam,
      schema: {
        ...templateSchema,
        summary: 'List base and the templates that Warren can build by itself, with the state of each',
        response: { 200: Type.Array(BuiltInTemplate), ...failures },
      },
    },
    async () => {
      const [base, listed] = await Promise.all([templates.readPublic('base'), builtIns.list()])
      return [...(base ? [presentBase(base)] : []), ...listed.map(presentBuiltIn)]
    },
  )
}
