/** The order in which pages stand in the menu; a page that is not named here comes last, under "More". */
export type Chapter = { title: string; pages: readonly string[] }

export const chapters: readonly Chapter[] = [
  { title: 'Begin', pages: ['index', 'install', 'first-sandbox', 'moving-from-e2b', 'mcp'] },
  {
    title: 'Use sandboxes',
    pages: [
      ...[
        'templates',
        'ssh',
        'code-interpreter',
        'desktop',
        'gpu',
        'pausing',
        'volumes',
        'network',
        'egress-gate',
        'secrets',
      ],
      ...['events', 'logs-and-metrics'],
    ],
  },
  {
    title: 'Run the server',
    pages: [
      ...[
        'operate',
        'settings',
        'teams',
        'people',
        'domain-and-tls',
        'postgresql',
        'cluster',
        'object-store',
        'backup-and-upgrade',
        'container-image',
        'kubernetes',
      ],
      ...['dashboard', 'observe', 'troubleshooting', 'errors'],
    ],
  },
  {
    title: 'Know it',
    pages: ['security', 'promises', 'isolation', 'performance', 'figures', 'api-coverage'],
  },
  { title: 'Change it', pages: ['ARCHITECTURE', 'CONTRIBUTING', 'CHANGELOG', 'checklists', 'simulation'] },
]

/** These lie beside docs/, not in it. */
export const rootPages: readonly string[] = ['ARCHITECTURE', 'CONTRIBUTING', 'CHANGELOG']
