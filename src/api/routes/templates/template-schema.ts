/** What the schemas of all template routes share. */
export const templateSchema = { tags: ['templates'], security: [{ ApiKeyAuth: [] }] }
