/** What the schemas of all admin routes share. */
export const adminSchema = { tags: ['admin'], security: [{ AdminApiKeyAuth: [] }] }
