/** Shapes that several operations share. */
import { type Static, type TSchema, Type } from 'typebox'

export const ErrorBody = Type.Object(
  {
    code: Type.Integer({ description: 'Equals the HTTP status' }),
    message: Type.String({ description: 'What happened and what to do' }),
    error_code: Type.Optional(Type.String({ description: 'A stable name of the failure, where it has one' })),
  },
  { description: 'Every failure has this body' },
)
export type ErrorBody = Static<typeof ErrorBody>

/** The answers any operation can give, beside its own. */
export const failures = { '4xx': ErrorBody, '5xx': ErrorBody } as const

export const Empty = Type.Unsafe<null | undefined>(Type.Null({ description: 'No body' }))
export const DateTime = Type.String({ format: 'date-time' })

/** Neither a process environment nor a database text can hold a NUL. */
export const PlainText = Type.String({ pattern: '^[^\\u0000]*$' })
/** Each is a row or an index entry; tens of thousands of them would hold up everybody else. */
const maxEntries = 1024
const textMap = (names: string) =>
  Type.Record(Type.String(), PlainText, {
    propertyNames: { pattern: names },
    maxProperties: maxEntries,
  })
export const TextMap = textMap('^[^\\u0000]+$')
/** Names of variables contain no `=`, because the value begins after the first one. */
export const VariableMap = textMap('^[^\\u0000=]+$')

const int32Max = 2 ** 31 - 1
export const Seconds = Type.Integer({ minimum: 0, maximum: int32Max, description: 'Whole seconds' })
/** The wire's times are int64; no double comes nearer to the largest of them. */
export const int64Max = 2 ** 63
export const PageLimit = Type.Integer({ minimum: 1, maximum: 100, default: 100 })

export const optionalOrNull = <T extends TSchema>(schema: T) =>
  Type.Optional(Type.Union([schema, Type.Null()]))

/** For operations whose body may be left out. */
export const bodyOrNone = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()])
