/** What the schemas of all sandbox routes share. */
export const sandboxSchema = { tags: ['sandboxes'], security: [{ ApiKeyAuth: [] }] }
