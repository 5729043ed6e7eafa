export const eventSchema = { tags: ['events'], security: [{ ApiKeyAuth: [] }] }
