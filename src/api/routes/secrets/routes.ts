import type { Api, RouteContext } from '../../context.ts'
import { createSecretRoute } from './create-secret.ts'
import { deleteSecretRoute } from './delete-secret.ts'
import { getSecretRoute } from './get-secret.ts'
import { listSecretsRoute } from './list-secrets.ts'
import { updateSecretRoute } from './update-secret.ts'

export function secretRoutes(app: Api, context: RouteContext): void {
  listSecretsRoute(app, context)
  createSecretRoute(app, context)
  getSecretRoute(app, context)
  updateSecretRoute(app, context)
  deleteSecretRoute(app, context)
}
