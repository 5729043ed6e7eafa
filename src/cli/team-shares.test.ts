import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SharesReport } from '../contract/rest/shares.ts'
import { sharesText } from './team-shares.ts'

const team = { teamID: 'id-1', slug: 'research' }
const at = '2026-11-18T12:00:00.000Z'
const mebibytes = (count: number) => count * 1024 * 1024
const shares: SharesReport = {
  nodes: [
    {
      nodeID: 'node-1',
      memory: {
        freeBytes: mebibytes(900),
        startBytes: mebibytes(512),
        teams: [
          {
            teamID: 'id-1',
            usedBytes: mebibytes(1500),
            fairBytes: mebibytes(700),
            aboveBytes: mebibytes(600),
          },
        ],
      },
      disk: { freeBytes: mebibytes(3000), startBytes: mebibytes(1024), teams: [] },
      connections: { count: 40, max: 1000, perTeam: 250, teams: [{ teamID: 'id-1', count: 30 }] },
      frozen: [{ sandboxID: 'ione', teamID: 'id-1', guard: 'memory', since: at }],
      acts: [
        {
          ...{ guard: 'memory', act: 'frozen', sandboxID: 'ione', teamID: 'id-1', why: 'Too \u202elittle.' },
          ...{ firstAt: at, lastAt: at, count: 2 },
        },
      ],
    },
  ],
  missingNodes: ['node-2'],
}

test('team shares tells who uses what, who is frozen, and what the guards did', () => {
  const shown = sharesText(shares, [team])
  assert.equal(
    shown,
    [
      'NODE node-1',
      'Free: 900 MiB of memory, 3000 MiB of disk space. 40 of 1000 connections are in use.',
      [
        'TEAM      OF           USES      FAIR SHARE  HAS TO GIVE BACK',
        'research  memory       1500 MiB  700 MiB     600 MiB',
        'research  connections  30        250',
      ].join('\n'),
      'FROZEN NOW  TEAM      GUARD   SINCE (UTC)\nione        research  memory  2026-11-18 12:00:00',
      [
        'LAST (UTC)           GUARD   ACT               TEAM      SANDBOX  WHY',
        '2026-11-18 12:00:00  memory  frozen (2 times)  research  ione     Too ?little.',
      ].join('\n'),
      'NODE node-2 does not answer.',
    ].join('\n\n'),
  )
})
