import type { Api, RouteContext } from '../../context.ts'
import { changeEntryRoute } from './change-entry.ts'
import { getEntryRoute } from './get-entry.ts'
import { listFolderRoute } from './list-folder.ts'
import { makeFolderRoute } from './make-folder.ts'
import { readFileRoute } from './read-file.ts'
import { removeEntryRoute } from './remove-entry.ts'
import { writeFileRoute } from './write-file.ts'

export function volumeContentRoutes(app: Api, context: RouteContext): void {
  getEntryRoute(app, context)
  changeEntryRoute(app, context)
  removeEntryRoute(app, context)
  listFolderRoute(app, context)
  makeFolderRoute(app, context)
  readFileRoute(app, context)
  writeFileRoute(app, context)
}
