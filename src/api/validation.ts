/**
 * Validates bodies with the types they have; texts of query strings and paths are converted to the schema's
 * types.
 */

import { Ajv, type Options, type ValidateFunction } from 'ajv'
import addFormats from 'ajv-formats'
import type { FastifyInstance, FastifySchemaCompiler } from 'fastify'

export function validateRequests(app: FastifyInstance): void {
  const common: Options = { useDefaults: true, strict: false, allErrors: false }
  const forBodies = withFormats(new Ajv(common))
  const forText = withFormats(new Ajv({ ...common, coerceTypes: 'array' }))
  // Compiles a schema at the first request that needs it: compiling those of all routes would take half a
  // second at each start.
  const compile: FastifySchemaCompiler<object> = ({ schema, httpPart }) => {
    let validate: ValidateFunction | undefined
    return (value: unknown) => {
      validate ??= (httpPart === 'body' ? forBodies : forText).compile(schema)
      return validate(value) || { error: validate.errors! }
    }
  }
  app.setValidatorCompiler(compile)
  // For a value that may also be null, the complaint that it is not null is useless.
  app.setSchemaErrorFormatter((errors, part) => {
    const useful = errors.filter(({ keyword, params }) => keyword !== 'anyOf' && params.type !== 'null')
    const words = useful.map(({ instancePath, message, params: { allowedValues } }) => {
      const values = Array.isArray(allowedValues) ? `: ${allowedValues.join(', ')}` : ''
      return `${part}${instancePath} ${message}${values}`
    })
    return new Error(words.join(', '))
  })
}

function withFormats(ajv: Ajv): Ajv {
  addFormats.default(ajv, ['date-time', 'uuid'])
  return ajv
}
