/** What the schemas of the routes about the members of a team share. */
const security: Record<string, string[]>[] = [{ ApiKeyAuth: [] }, { AccessTokenAuth: [] }]
export const memberSchema = { tags: ['members'], security }
