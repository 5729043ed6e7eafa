/** The dashboard as the API serves it: files whose names change with their content, and the one page that loads them. */

/** Both compressed forms; who takes neither gets the first one decompressed. */
export type DashboardFile = { gzip: Buffer; br: Buffer }

export type Dashboard = {
  /** Names of the files that the page loads at once. */
  entry: { script: string; style: string; icon: string; preloads: string[] }
  files: ReadonlyMap<string, DashboardFile>
}

const assets = '/dashboard/assets'

/** The isolation of sandboxes is weaker than it could be: two sentences without quotation marks and markup. */
export type WeakerIsolation = { what: string; weakness: string }

type PageFacts = {
  /** Where browsers find sandboxes, if it was configured. */
  domain?: string | undefined
  weakerIsolation?: WeakerIsolation | undefined
  /** What the provider is called with which people sign in, if there is one. */
  signInLabel?: string | undefined
}

export function dashboardPage(
  { script, style, icon, preloads }: Dashboard['entry'],
  { domain, weakerIsolation, signInLabel }: PageFacts,
): string {
  return [
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Warren</title>',
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    '<meta name="color-scheme" content="light dark">',
    `<meta name="warren-domain" content="${domain ?? ''}">`,
    ...(weakerIsolation
      ? [
          `<meta name="warren-isolation" content="${weakerIsolation.what}">`,
          `<meta name="warren-isolation-weakness" content="${weakerIsolation.weakness}">`,
        ]
      : []),
    ...(signInLabel === undefined ? [] : [`<meta name="warren-sign-in" content="${signInLabel}">`]),
    `<link rel="icon" type="image/svg+xml" href="${assets}/${icon}">`,
    `<link rel="stylesheet" href="${assets}/${style}">`,
    ...preloads.map((name) => `<link rel="modulepreload" href="${assets}/${name}">`),
    `<script type="module" src="${assets}/${script}"></script></head>`,
    // Shown until the script has drawn the first view, or when a broken connection cut it off.
    '<body><div id="app"><p class="arriving">The dashboard is loading. <a href="">Load it again</a> if this stays.</p></div>',
    '<noscript>The dashboard needs JavaScript.</noscript></body></html>',
  ].join('\n')
}

/**
 * The page loads nothing from other hosts, has no inline script or style, turns no text into markup, and cannot be framed.
 * The client in the page connects to sandboxes, which have hosts of their own if there is a domain.
 */
export function dashboardPolicy(domain?: string): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data: blob:",
    `connect-src 'self'${domain === undefined ? '' : ` https://*.${domain}`}`,
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ')
}
