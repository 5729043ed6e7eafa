/** The reference of the API, made of the OpenAPI document of this very server. */
import { escapeHtml, type RenderedPage, type Section } from './markdown.ts'

type ApiSchema = {
  type?: string | string[]
  description?: string
  properties?: Record<string, ApiSchema>
  required?: string[]
  items?: ApiSchema
  anyOf?: ApiSchema[]
  enum?: unknown[]
  const?: unknown
  format?: string
  default?: unknown
  minimum?: number
  maximum?: number
  additionalProperties?: unknown
  patternProperties?: Record<string, ApiSchema>
}

type Content = { content?: Record<string, { schema?: ApiSchema }>; description?: string }

type ApiOperation = {
  summary?: string
  description?: string
  tags?: string[]
  parameters?: { in: string; name: string; required?: boolean; description?: string; schema?: ApiSchema }[]
  requestBody?: Content
  responses?: Record<string, Content>
  security?: Record<string, unknown>[]
}

export type ApiDocument = {
  info: { title: string; version: string }
  paths: Record<string, Record<string, ApiOperation>>
}

const deepest = 6

export function renderApi({ info, paths }: ApiDocument): RenderedPage {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  )
  const tags = inOrder(new Set(operations.map(({ operation }) => tagOf(operation))))
  const sections: Section[] = [{ id: 'api', level: 1, title: 'API', text: '' }]
  const chapters = tags.map((tag) => {
    sections.push({ id: tag, level: 2, title: tag, text: '' })
    const own = operations.filter(({ operation }) => tagOf(operation) === tag)
    const shown = own.map(({ path, method, operation }) => operationOf(path, method, operation))
    return `<h2 id="${escapeHtml(tag)}">${escapeHtml(tag)}</h2>\n${shown.join('\n')}`
  })
  const intro =
    `<h1 id="api">API</h1>\n<p>Every operation that this server (version ${escapeHtml(info.version)}) serves, from its own ` +
    '<a href="/openapi.json">OpenAPI document</a>. Clients of E2B call them for you; ' +
    '<a href="/docs/api-coverage">this page</a> says which belong to their protocol.</p>'
  return { title: 'API', html: `${intro}\n${chapters.join('\n')}`, sections }
}

/** Operations for programs come first, those for operators last. */
const firstTags = ['sandboxes', 'templates', 'snapshots', 'volumes']
const lastTags = ['teams', 'admin', 'health', 'other']

function inOrder(tags: ReadonlySet<string>): string[] {
  const others = [...tags].filter((tag) => !firstTags.includes(tag) && !lastTags.includes(tag)).sort()
  return [...firstTags, ...others, ...lastTags].filter((tag) => tags.has(tag))
}

const tagOf = ({ tags }: ApiOperation): string => tags?.[0] ?? 'other'

function operationOf(path: string, method: string, operation: ApiOperation): string {
  const { summary = '', description, parameters = [], requestBody, responses = {}, security = [] } = operation
  const keys = security.flatMap((one) => Object.keys(one)).map((name) => keyNames[name] ?? name)
  const rows = parameters.map(({ name, required, description: about, schema }) => ({
    name,
    required: required === true,
    about,
    schema: schema ?? {},
  }))
  const answers = Object.entries(responses).map(
    ([status, content]) =>
      `<dt>${escapeHtml(status)}</dt><dd>${schemaOf(bodyOf(content)) || escapeHtml(content.description ?? '')}</dd>`,
  )
  return `<details class="operation">
<summary><code class="method ${method.toLowerCase()}">${method}</code> <code>${escapeHtml(path)}</code> <span>${escapeHtml(summary)}</span></summary>
${description ? `<p>${escapeHtml(description)}</p>` : ''}
${keys.length > 0 ? `<p>Needs ${escapeHtml([...new Set(keys)].join(' or '))}.</p>` : ''}
${rows.length > 0 ? `<h4>Parameters</h4>\n${fieldsOf(rows, 0)}` : ''}
${requestBody ? `<h4>Body</h4>\n${schemaOf(bodyOf(requestBody))}` : ''}
<h4>Answers</h4>
<dl>${answers.join('\n')}</dl>
</details>`
}

const keyNames: Readonly<Record<string, string>> = {
  ApiKeyAuth: 'an API key (X-API-Key)',
  AccessTokenAuth: 'an access token (Authorization: Bearer)',
  VolumeTokenAuth: "a volume's token (Authorization: Bearer)",
  AdminApiKeyAuth: 'the admin token (X-Admin-Token)',
}

const bodyOf = ({ content = {} }: Content): ApiSchema => Object.values(content)[0]?.schema ?? {}

type Field = { name: string; required: boolean; about: string | undefined; schema: ApiSchema }

function fieldsOf(fields: readonly Field[], depth: number): string {
  const items = fields.map(({ name, required, about, schema }) => {
    const words = [about ?? schema.description, limitsOf(schema)].filter(Boolean).join(' ')
    const needed = required ? ' <em>required</em>' : ''
    return `<li><code>${escapeHtml(name)}</code> ${escapeHtml(typeOf(schema))}${needed} ${escapeHtml(words)}${schemaOf(schema, depth + 1)}</li>`
  })
  return `<ul class="fields">\n${items.join('\n')}\n</ul>`
}

/** The fields below it; empty where there are none. */
function schemaOf(schema: ApiSchema, depth = 0): string {
  if (depth > deepest) return ''
  const inner = schema.items ?? schema.anyOf?.find(({ type }) => type !== 'null')
  const { properties, required = [] } = schema
  if (properties) {
    const fields = Object.entries(properties).map(([name, one]) => ({
      name,
      required: required.includes(name),
      about: undefined,
      schema: one,
    }))
    return fieldsOf(fields, depth)
  }
  if (inner) return (depth === 0 ? `<p>${escapeHtml(typeOf(schema))}</p>` : '') + schemaOf(inner, depth + 1)
  return depth === 0 && schema.type ? `<p>${escapeHtml(typeOf(schema))}</p>` : ''
}

function typeOf({
  type,
  items,
  anyOf,
  enum: values,
  const: only,
  format,
  patternProperties,
}: ApiSchema): string {
  if (only !== undefined) return JSON.stringify(only)
  if (values) return values.map((value) => JSON.stringify(value)).join(' | ')
  if (anyOf) return anyOf.map(typeOf).join(' | ')
  if (items) return `array of ${typeOf(items)}`
  if (patternProperties) return 'object by name'
  return [Array.isArray(type) ? type.join(' | ') : (type ?? 'any'), format && `(${format})`]
    .filter(Boolean)
    .join(' ')
}

function limitsOf({ minimum, maximum, default: usual }: ApiSchema): string {
  const range =
    minimum !== undefined && maximum !== undefined && maximum < 2 ** 31 - 1 ? `${minimum} to ${maximum}.` : ''
  return [range, usual !== undefined && `Default: ${JSON.stringify(usual)}.`].filter(Boolean).join(' ')
}
