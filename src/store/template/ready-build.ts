import type { Expression, ExpressionBuilder, Kysely, SqlBool } from 'kysely'
import { uuidForm } from '../../lib/ids.ts'
import type { Tables, TemplateBuildRow } from '../database/tables.ts'

/**
 * The ready build of a template with this ID, or the one to which this tag was assigned last. `isWanted`
 * excludes builds; the tag then means the assignment before.
 */
export function findReadyRow(
  db: Kysely<Tables>,
  { templateID, tagOrBuildID }: { templateID: string; tagOrBuildID: string },
  isWanted?: (where: ExpressionBuilder<Tables, 'template_builds'>) => Expression<SqlBool>,
): Promise<TemplateBuildRow | undefined> {
  const ready = db
    .selectFrom('template_builds')
    .selectAll('template_builds')
    .where('template_builds.template_id', '=', templateID)
    .where('status', '=', 'ready')
    .$if(isWanted !== undefined, (query) => query.where(isWanted!))
  if (uuidForm.test(tagOrBuildID)) return ready.where('id', '=', tagOrBuildID).executeTakeFirst()
  return ready
    .innerJoin('template_tags', 'template_tags.build_id', 'template_builds.id')
    .where('tag', '=', tagOrBuildID)
    .orderBy('sequence', 'desc')
    .limit(1)
    .executeTakeFirst()
}
