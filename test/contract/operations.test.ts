/** Our OpenAPI document and the contract agree, in both directions: operations, fields and statuses. */
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { openApi } from '../support/api.ts'
import { fieldsOf, type Schema } from './fields.ts'
import type { Operation } from './operation.ts'
import { contract } from './operations.ts'
import { ours } from './our-operations.ts'

type Body = { content?: Record<string, { schema: Schema }> }
type DocumentedOperation = {
  parameters?: { in: string; name: string; required?: boolean }[]
  requestBody?: Body
  responses: Record<string, Body>
}

const warren = await openApi()
after(() => warren[Symbol.asyncDispose]())
const { paths } = (await warren.ask('GET', '/openapi.json')).json() as {
  paths: Record<string, Record<string, DocumentedOperation>>
}

const documented = new Map<string, DocumentedOperation>(
  Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(
      ([method, operation]) => [`${method.toUpperCase()} ${path}`, operation] as const,
    ),
  ),
)
const listed = [...Object.values(contract).flat(), ...ours]

const sorted = (fields = ''): string[] => fields.split(' ').filter(Boolean).sort()
const bodyFields = (body?: Body): string[] => fieldsOf(Object.values(body?.content ?? {})[0]?.schema)

/** The fields of the table without those that it says we leave out, and what lies below these. */
function expected(fields: string | undefined, { leftOut = {} }: Operation): string[] {
  const absent = Object.keys(leftOut)
  return sorted(fields).filter(
    (field) => !absent.some((name) => field.replace(/\*$/, '') === name || field.startsWith(`${name}.`)),
  )
}

describe('a served operation', () => {
  for (const operation of listed.filter(({ notServed }) => notServed === undefined)) {
    it(`${operation.call} has the parameters, the body and the answers of the contract`, () => {
      const found = documented.get(operation.call)
      assert.ok(found, 'it is not in the OpenAPI document')
      const query = (found.parameters ?? []).filter((parameter) => parameter.in === 'query')
      const shown = query.map(({ name, required }) => (required ? `${name}*` : name)).sort()
      assert.deepEqual(shown, sorted(operation.query))
      assert.deepEqual(bodyFields(found.requestBody), sorted(operation.body))
      const successes = Object.entries(found.responses).filter(([status]) => status.startsWith('2'))
      assert.deepEqual(
        Object.fromEntries(successes.map(([status, body]) => [status, bodyFields(body)])),
        Object.fromEntries(
          Object.entries(operation.answers).map(([status, fields]) => [status, expected(fields, operation)]),
        ),
      )
    })
  }

  it('declares the body of its failures', () => {
    const without = [...documented]
      .filter(([call]) => call !== 'GET /health')
      .filter(([, { responses }]) =>
        ['4XX', '5XX'].some((status) => !bodyFields(responses[status]).includes('code*')),
      )
    assert.deepEqual(without, [])
  })
})

describe('the table', () => {
  it('names every operation of our document, once', () => {
    const calls = listed.map(({ call }) => call)
    assert.deepEqual(
      [...documented.keys()].filter((call) => !calls.includes(call)),
      [],
    )
    assert.equal(new Set(calls).size, calls.length)
  })

  it('marks no served operation as not served', () => {
    const wrong = listed.filter(({ call, notServed }) => notServed !== undefined && documented.has(call))
    assert.deepEqual(wrong, [])
  })

  it('leaves out only fields that it names', () => {
    for (const { call, answers, leftOut = {} } of listed) {
      const all = Object.values(answers).flatMap(sorted)
      for (const field of Object.keys(leftOut)) {
        assert.ok(all.includes(field) || all.includes(`${field}*`), `${call} leaves out ${field}`)
      }
    }
  })
})
