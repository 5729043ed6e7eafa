/** The views that can be gone to from everywhere. */
import { isAdmin } from '../browser/session.ts'
import type { IconName } from '../parts/icon.tsx'

type ViewLink = { noun: string; text: string; icon: IconName; operatorOnly?: boolean }
type Group = readonly [name: string, items: readonly ViewLink[]]

const destinations: readonly Group[] = [
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
      { noun: 'shares', text: 'Shares', icon: 'scale', operatorOnly: true },
      { noun: 'machine', text: 'Machine', icon: 'server', operatorOnly: true },
    ],
  ],
]

export const visibleGroups = (): Group[] =>
  destinations.map(([name, items]) => [name, items.filter((one) => !one.operatorOnly || isAdmin())])

export const visibleDestinations = (): ViewLink[] => visibleGroups().flatMap(([, items]) => items)
