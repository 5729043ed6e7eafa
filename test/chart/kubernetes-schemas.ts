/** Checks manifests against the schemas of Kubernetes itself, and rejects fields that it does not know. */
import { readFileSync } from 'node:fs'
import { Ajv, type ValidateFunction } from 'ajv'
import { schemaFile } from './chart-files.ts'

export type Manifest = { apiVersion: string; kind: string; metadata: { name: string } }
type Kind = { group: string; version: string; kind: string }
type Definition = {
  type?: string | string[]
  format?: string
  properties?: object
  'x-kubernetes-group-version-kind'?: Kind[]
}

const { definitions } = JSON.parse(readFileSync(schemaFile, 'utf8')) as {
  definitions: Record<string, Definition>
}
for (const definition of Object.values(definitions)) {
  // The server drops a field that it does not know, so a misspelt one would have no effect.
  if (definition.properties) Object.assign(definition, { additionalProperties: false })
  if (definition.format === 'int-or-string') definition.type = ['integer', 'string']
}
const ajv = new Ajv({ strict: false, validateFormats: false, allErrors: true })
ajv.addSchema({ $id: 'kubernetes', definitions })
const checks = new Map<string, ValidateFunction>()

/** The faults of the manifest, one line each. */
export function faultsOf(manifest: Manifest): string[] {
  const check = checkOf(manifest)
  if (!check) return [`Kubernetes has no ${manifest.apiVersion} ${manifest.kind}, or its schema is not kept.`]
  if (check(manifest)) return []
  return (check.errors ?? []).map(({ instancePath, message, params }) =>
    `${instancePath} ${message} ${JSON.stringify(params)}`.trim(),
  )
}

function checkOf({ apiVersion, kind }: Manifest): ValidateFunction | undefined {
  const key = `${apiVersion} ${kind}`
  const [version, group = ''] = apiVersion.split('/').reverse()
  const name = Object.keys(definitions).find((one) =>
    definitions[one]?.['x-kubernetes-group-version-kind']?.some(
      (known) => known.group === group && known.version === version && known.kind === kind,
    ),
  )
  if (!name) return undefined
  const known = checks.get(key) ?? ajv.compile({ $ref: `kubernetes#/definitions/${name}` })
  checks.set(key, known)
  return known
}
