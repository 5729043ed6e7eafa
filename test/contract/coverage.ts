/**
 * The page docs/api-coverage.md, made of the tables beside this file.
 * `bin/node test/contract/coverage.ts` writes it; `coverage.test.ts` fails when it is stale.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Operation } from './operation.ts'
import { contract } from './operations.ts'
import { ours } from './our-operations.ts'
import { calls } from './rpc.ts'

export const coverageFile = join(import.meta.dirname, '../../docs/api-coverage.md')

export function coveragePage(): string {
  const operations = Object.values(contract).flat()
  const served = operations.filter(({ notServed }) => notServed === undefined)
  return [
    '# Which operations Warren serves',
    '',
    `Warren serves ${served.length} of the ${operations.length} operations of the E2B protocol that clients, the command line and the dashboard use.`,
    'A served operation has all fields that clients use, except those named here.',
    '`test/contract/operations.test.ts` compares the table behind this page with `/openapi.json` of the server, and',
    '`test/contract/rpc.test.ts` with `proto/`; `bin/node test/contract/coverage.ts`',
    'writes it.',
    ...Object.entries(contract).flatMap(([title, list]) => ['', `## ${title}`, '', ...table(list)]),
    '',
    '## Served beside the protocol',
    '',
    ...table(ours),
    '',
    '## Inside a sandbox (envd)',
    '',
    '| call | what it does |',
    '|---|---|',
    ...Object.entries(calls).flatMap(([service, methods]) =>
      Object.entries(methods).map(([name, { does }]) => `| \`${service}/${name}\` | ${does} |`),
    ),
    '',
  ].join('\n')
}

function table(operations: readonly Operation[]): string[] {
  return ['| operation | what it does | served |', '|---|---|---|', ...operations.map(row)]
}

function row({ call, does, notServed, leftOut = {} }: Operation): string {
  const without = Object.entries(leftOut).map(
    ([field, why]) => `; no \`${field.replace('[].', '')}\`: ${why}`,
  )
  return `| \`${call}\` | ${does} | ${notServed === undefined ? `yes${without.join('')}` : `no: ${notServed}`} |`
}

if (import.meta.main) writeFileSync(coverageFile, coveragePage())
