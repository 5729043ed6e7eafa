import { type Static, Type } from 'typebox'

export const BuiltInPath = Type.Object({ name: Type.String({ minLength: 1, maxLength: 128 }) })
export const BuiltInRequest = Type.Object({
  full: Type.Optional(Type.Boolean({ description: 'With everything that the template can hold' })),
})
export type BuiltInRequest = Static<typeof BuiltInRequest>
export const BuiltInAnswer = Type.Object({
  templateID: Type.String(),
  buildID: Type.String(),
  note: Type.Optional(Type.String({ description: 'How large it is, how long it takes, what to know of it' })),
})
export type BuiltInAnswer = Static<typeof BuiltInAnswer>
