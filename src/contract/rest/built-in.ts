import { type Static, Type } from 'typebox'

export const BuiltInPath = Type.Object({ name: Type.String({ minLength: 1, maxLength: 128 }) })
export const BuiltInRequest = Type.Object({
  full: Type.Optional(Type.Boolean({ description: 'With everything that the template can hold' })),
})
export type BuiltInRequest = Static<typeof BuiltInRequest>
export const BuiltInAnswer = Type.Object({ templateID: Type.String(), buildID: Type.String() })
export type BuiltInAnswer = Static<typeof BuiltInAnswer>
