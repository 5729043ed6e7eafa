/** The server compiles a schema of a route when it is first needed, so a start does not tell of a broken one: this does. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Ajv } from 'ajv'
import stringifierOf from 'fast-json-stringify'
import { openApi } from '../../test/support/api.ts'

type Part = { schema?: object; content?: Record<string, { schema?: object }> }
type Operation = { parameters?: Part[]; requestBody?: Part; responses: Record<string, Part> }

const schemasOf = ({ schema, content = {} }: Part): object[] => [
  ...(schema ? [schema] : []),
  ...Object.values(content).flatMap((form) => form.schema ?? []),
]

test('every schema of a request or an answer can be compiled', async () => {
  await using open = await openApi()
  const { paths } = (await open.ask('GET', '/openapi.json')).json()
  const operations = Object.values(paths).flatMap((path) => Object.values(path as Record<string, Operation>))
  const ajv = new Ajv({ strict: false, validateFormats: false })
  const asked = operations.flatMap(({ parameters = [], requestBody = {} }) => [...parameters, requestBody])
  const answered = operations.flatMap(({ responses }) => Object.values(responses))
  for (const schema of asked.flatMap(schemasOf)) ajv.compile(schema)
  for (const schema of answered.flatMap(schemasOf)) stringifierOf(schema)
  assert.ok(asked.flatMap(schemasOf).length > 50 && answered.flatMap(schemasOf).length > 50)
})
