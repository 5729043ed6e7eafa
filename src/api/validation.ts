/** Bodies are taken as they are typed; query strings and paths, being text, are turned into what is asked for. */

import { Ajv, type Options } from 'ajv'
import addFormats from 'ajv-formats'
import type { FastifyInstance, FastifySchemaCompiler } from 'fastify'

export function validateRequests(app: FastifyInstance): void {
  const common: Options = { useDefaults: true, strict: false, allErrors: false }
  const forBodies = withFormats(new Ajv(common))
  const forText = withFormats(new Ajv({ ...common, coerceTypes: 'array' }))
  const compile: FastifySchemaCompiler<object> = ({ schema, httpPart }) =>
    (httpPart === 'body' ? forBodies : forText).compile(schema)
  app.setValidatorCompiler(compile)
  // Of a value that may also be null it is not worth telling that it is not.
  app.setSchemaErrorFormatter((errors, part) => {
    const telling = errors.filter(({ keyword, params }) => keyword !== 'anyOf' && params.type !== 'null')
    const words = telling.map(({ instancePath, message, params: { allowedValues } }) => {
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
