/** What the schemas of the routes about a caller's own team share. */
const security: Record<string, string[]>[] = [{ ApiKeyAuth: [] }, { AccessTokenAuth: [] }]
export const teamSchema = { tags: ['teams'], security }
