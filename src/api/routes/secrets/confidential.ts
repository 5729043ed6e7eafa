/** Shared by all routes of secrets: answers must not be cached, and no error repeats what was sent. */
import type { onRequestAsyncHookHandler } from 'fastify'
import type { Secret as WireSecret } from '../../../contract/rest/secret.ts'
import { invalidSecret, type Secret } from '../../../core/secret/secret.ts'
import type { RouteContext } from '../../context.ts'

export const schema = { tags: ['secrets'], security: [{ ApiKeyAuth: [] }] }

export const confidential = ({ auth }: RouteContext) => ({
  onRequest: [keepNowhere, auth.requireTeam],
  schemaErrorFormatter: (_: unknown, part: string) => invalidSecret(forms[part] ?? 'it cannot be read'),
})

const keepNowhere: onRequestAsyncHookHandler = async (_, reply) => {
  reply.header('cache-control', 'no-store')
}

/** The validator's own message would repeat the value. */
const forms: Record<string, string> = {
  body: 'send a JSON object whose value (and name, for a new secret) is a text, and whose metadata, if any, maps texts to texts',
  querystring: 'limit is a whole number from 1 to 100',
}

export function presentSecret(secret: Secret): WireSecret {
  const { secretID, name, currentVersion, metadata } = secret
  const iso = (at: number) => new Date(at).toISOString()
  return {
    secretID,
    name,
    currentVersion,
    metadata,
    createdAt: iso(secret.createdAt),
    updatedAt: iso(secret.updatedAt),
  }
}
