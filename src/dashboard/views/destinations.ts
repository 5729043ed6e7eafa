/** The views that can be gone to from everywhere. */
import { isAdmin } from '../browser/session.ts'
import type { IconName } from '../parts/icon.tsx'

export type ViewLink = { noun: string; text: string; icon: IconName }

export const destinations: readonly (readonly [group: string, items: readonly ViewLink[]])[] = [
  ['', [{ noun: 'sandboxes', text: 'Sandboxes', icon: 'box' }]],
  [
    'Build',
    [
      { noun: 'templates', text: 'Templates', icon: 'layers' },
      { noun: 'snapshots', text: 'Snapshots', icon: 'camera' },
      { noun: 'volumes', text: 'Volumes', icon: 'disk' },
    ],
  ],
  [
    'Connect',
    [
      { noun: 'secrets', text: 'Secrets', icon: 'lock' },
      { noun: 'webhooks', text: 'Webhooks', icon: 'bell' },
      { noun: 'keys', text: 'API keys', icon: 'key' },
    ],
  ],
  [
    'Operate',
    [
      { noun: 'team', text: 'Team', icon: 'users' },
      { noun: 'machine', text: 'Machine', icon: 'server' },
    ],
  ],
]

export const visibleDestinations = (): ViewLink[] =>
  destinations.flatMap(([, items]) => items).filter(({ noun }) => noun !== 'machine' || isAdmin())
