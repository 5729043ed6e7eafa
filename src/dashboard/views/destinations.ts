/** The views that can be gone to from everywhere. */
import { isAdmin, may } from '../browser/session.ts'
import type { IconName } from '../parts/icon.tsx'

type ViewLink = { noun: string; text: string; icon: IconName; isShown?: () => boolean }
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
      { noun: 'webhooks', text: 'Webhooks', icon: 'bell', isShown: () => may('member') },
      { noun: 'keys', text: 'API keys', icon: 'key' },
    ],
  ],
  [
    'Operate',
    [
      { noun: 'team', text: 'Team', icon: 'home' },
      { noun: 'members', text: 'Members', icon: 'users' },
      { noun: 'audit', text: 'Audit', icon: 'list', isShown: () => may('owner') },
      { noun: 'shares', text: 'Shares', icon: 'scale', isShown: isAdmin },
      { noun: 'machine', text: 'Machine', icon: 'server', isShown: isAdmin },
    ],
  ],
]

export const visibleGroups = (): Group[] =>
  destinations.map(([name, items]) => [name, items.filter(({ isShown }) => isShown?.() ?? true)])

export const visibleDestinations = (): ViewLink[] => visibleGroups().flatMap(([, items]) => items)
