/** What the operations of a person's session share in /openapi.json. */
export const sessionSchema = { tags: ['people'], security: [{ SessionCookie: [] }] }
