/** Serializes answers by the schema of their status, which drops fields that it does not name. */
import stringifierOf from 'fast-json-stringify'
import type { FastifyInstance } from 'fastify'

type Stringify = (answer: unknown) => string

/**
 * Compiles a schema at the first answer that needs it: compiling those of all routes would take half a second
 * at each start.
 */
export function serializeAnswers(app: FastifyInstance): void {
  app.setSerializerCompiler(({ schema }) => {
    let stringify: Stringify | undefined
    return (answer) => {
      stringify ??= stringifierOf(schema as object) as Stringify
      return stringify(answer)
    }
  })
}
