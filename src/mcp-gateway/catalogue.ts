/**
 * MCP servers that clients request by the names of Docker's catalogue, as packages of npm and PyPI: what to
 * install, and how the client's settings reach the server.
 */
import { AppError } from '../lib/app-error.ts'

type Settings = Record<string, unknown>

/** How to install a server, and how to run it in its folder. */
export type ServerRecipe = {
  name: string
  source: { npm: string } | { pypi: string } | { repository: string; installCmd: string | undefined } | null
  /** Unset: the package's own program. */
  runCmd?: string
  args: string[]
  envs: Record<string, string>
}

type Entry = {
  package: { npm: string } | { pypi: string }
  /** Settings that are passed as variables. */
  envs?: Record<string, string>
  args?: (settings: Settings) => string[]
}

const reference = (name: string) => ({ npm: `@modelcontextprotocol/server-${name}` })
const paths = (settings: Settings) => (Array.isArray(settings.paths) ? settings.paths.map(String) : [])

const entries: Record<string, Entry> = {
  airtable: { package: { npm: 'airtable-mcp-server' }, envs: { airtableApiKey: 'AIRTABLE_API_KEY' } },
  arxiv: {
    package: { pypi: 'arxiv-mcp-server' },
    args: ({ storagePath }) => (storagePath ? ['--storage-path', String(storagePath)] : []),
  },
  brave: { package: { npm: '@brave/brave-search-mcp-server' }, envs: { apiKey: 'BRAVE_API_KEY' } },
  context7: { package: { npm: '@upstash/context7-mcp' }, envs: { apiKey: 'CONTEXT7_API_KEY' } },
  duckduckgo: { package: { pypi: 'duckduckgo-mcp-server' } },
  exa: { package: { npm: 'exa-mcp-server' }, envs: { apiKey: 'EXA_API_KEY' } },
  fetch: { package: { pypi: 'mcp-server-fetch' } },
  filesystem: { package: reference('filesystem'), args: paths },
  firecrawl: {
    package: { npm: 'firecrawl-mcp' },
    envs: { apiKey: 'FIRECRAWL_API_KEY', url: 'FIRECRAWL_API_URL', retryMax: 'FIRECRAWL_RETRY_MAX_ATTEMPTS' },
  },
  git: {
    package: { pypi: 'mcp-server-git' },
    args: (settings) => paths(settings).flatMap((path) => ['--repository', path]),
  },
  memory: { package: reference('memory') },
  notion: {
    package: { npm: '@notionhq/notion-mcp-server' },
    envs: { internalIntegrationToken: 'NOTION_TOKEN' },
  },
  perplexityAsk: {
    package: { npm: '@perplexity-ai/mcp-server' },
    envs: { perplexityApiKey: 'PERPLEXITY_API_KEY' },
  },
  sequentialthinking: { package: reference('sequential-thinking') },
  stripe: { package: { npm: '@stripe/mcp' }, envs: { secretKey: 'STRIPE_SECRET_KEY' } },
  tavily: { package: { npm: 'tavily-mcp' }, envs: { apiKey: 'TAVILY_API_KEY' } },
  time: { package: { pypi: 'mcp-server-time' } },
  wikipedia: { package: { pypi: 'wikipedia-mcp' } },
}

/**
 * Makes a recipe from a client's settings: a server of the catalogue, a GitHub repository, or a custom
 * command.
 */
export function recipeFor(name: string, given: unknown): ServerRecipe {
  const settings = typeof given === 'object' && given !== null ? (given as Settings) : {}
  const { runCmd, installCmd, envs } = settings
  if (typeof runCmd === 'string' && runCmd !== '') {
    const repository = /^github\/([\w.-]+\/[\w.-]+)$/.exec(name)?.[1]
    const install = typeof installCmd === 'string' ? installCmd : undefined
    return {
      name,
      runCmd,
      args: [],
      envs: textsOf(envs),
      source: repository ? { repository: `https://github.com/${repository}`, installCmd: install } : null,
    }
  }
  const entry = Object.hasOwn(entries, name) ? entries[name] : undefined
  if (!entry) {
    throw new AppError(
      'not_found',
      `There is no MCP server '${name}' here. Give a runCmd for it, or use one of: ${Object.keys(entries).join(', ')}.`,
    )
  }
  const variables = Object.entries(entry.envs ?? {}).flatMap(([setting, variable]) =>
    settings[setting] === undefined ? [] : [[variable, String(settings[setting])]],
  )
  return {
    name,
    source: entry.package,
    args: entry.args?.(settings) ?? [],
    envs: Object.fromEntries(variables),
  }
}

function textsOf(envs: unknown): Record<string, string> {
  if (typeof envs !== 'object' || envs === null) return {}
  return Object.fromEntries(Object.entries(envs).map(([name, value]) => [name, String(value)]))
}
