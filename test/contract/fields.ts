/**
 * A JSON schema as a sorted list of field names, to be held against a table: `a.b` is a field of an object, `[]` an
 * element of a list, `{}` a value of a map, and a `*` at the end says that the field must be there.
 */
export type Schema = {
  type?: string | string[]
  properties?: Record<string, Schema>
  required?: string[]
  items?: Schema
  additionalProperties?: Schema | boolean
  patternProperties?: Record<string, Schema>
  anyOf?: Schema[]
}

export function fieldsOf(schema: Schema | undefined): string[] {
  return [...new Set(schema ? below(schema, '') : [])].sort()
}

function below(schema: Schema, prefix: string): string[] {
  const required = new Set(schema.required)
  const named = Object.entries(schema.properties ?? {}).flatMap(([name, field]) => {
    const path =
      prefix === '' || /[\]}]$/.test(prefix) ? `${prefix}${prefix && '.'}${name}` : `${prefix}.${name}`
    return [required.has(name) ? `${path}*` : path, ...below(field, path)]
  })
  const maps = [...Object.values(schema.patternProperties ?? {}), schema.additionalProperties]
  return [
    ...named,
    ...(schema.items ? below(schema.items, `${prefix}[]`) : []),
    ...maps.flatMap((value) => (typeof value === 'object' ? below(value, `${prefix}{}`) : [])),
    ...(schema.anyOf ?? []).flatMap((choice) => below(choice, prefix)),
  ]
}
