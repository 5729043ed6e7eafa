import type { AuditEntry } from '../contract/rest/audit.ts'
import { isAppError } from '../lib/app-error.ts'
import type { Clock } from '../lib/clock.ts'
import { positiveNumber, UsageError } from './arguments.ts'
import { table } from './output.ts'
import type { PeopleClient } from './people-client.ts'
import type { Given, SingleCommand } from './verbs.ts'

type AuditParts = {
  connect: () => Promise<PeopleClient>
  clock: Clock
  print: (line: string) => void
  /** Resolves when the person asks to stop. */
  stopped?: Promise<void>
}

const command = 'warren audit'
const reconnectMs = 1000
/** What may have been written while nobody listened is read again. */
const overlapMs = 30_000

export const auditCommand: SingleCommand<AuditParts> = {
  name: 'audit',
  does: 'who changed what, from where and with which answer',
  verb: {
    does: 'Shows who changed what, the newest last.',
    about:
      'On the server it shows all teams. With E2B_API_KEY and E2B_API_URL it shows the team of that key.',
    texts: { team: 'TEAM', person: 'PERSON', action: 'ACTION', object: 'ID', since: 'TIME', limit: 'N' },
    flags: ['follow'],
    options: {
      team: 'only this team, by slug, id or name',
      person: 'only what this person did, by e-mail address or id',
      action: 'only this action, or all that begin so: sandbox.kill, or key.',
      object: 'only what concerns the object with this id',
      since: 'only from then on: 30m, 12h, 7d or 2027-01-31T12:00:00Z',
      limit: 'how many entries to show (default: 100)',
      follow: 'goes on with new entries until Ctrl-C',
    },
    run: audit,
  },
}

async function audit({ values, flags, json }: Given, parts: AuditParts): Promise<string> {
  const { person, action, object, since } = values
  const limit = positiveNumber('limit', values.limit ?? '100', command)
  const from = since === undefined ? undefined : timeOf(since, parts.clock.now())
  const filters = { person, action, object, from }
  const given = Object.entries(filters).filter((entry): entry is [string, string] => entry[1] !== undefined)
  const query = Object.fromEntries(given)
  const client = await parts.connect()
  const isOfAll = client.isOperator && values.team === undefined
  const teamID = isOfAll ? undefined : (await client.findTeam(values.team)).teamID
  const entries = (await client.readAudit(teamID, query, limit)).reverse()
  if (!flags.has('follow')) return json ? entries.map(asLine).join('\n') : show(entries)
  const write = (entry: AuditEntry) => parts.print(json ? asLine(entry) : cells(entry).join('  '))
  return follow(client, teamID, query, entries, write, parts)
}

/** Connects again whenever the server ends the answer or breaks it off. */
async function follow(
  client: PeopleClient,
  teamID: string | undefined,
  query: Record<string, string>,
  shown: readonly AuditEntry[],
  write: (entry: AuditEntry) => void,
  { clock, stopped }: AuditParts,
): Promise<string> {
  const seen = new Set(shown.map(({ id }) => id))
  for (const entry of shown) write(entry)
  const onEntry = (entry: AuditEntry) => {
    if (seen.has(entry.id)) return
    seen.add(entry.id)
    if (seen.size > 10_000) seen.delete(seen.values().next().value!)
    write(entry)
  }
  let isStopped = false
  const stop = stopped?.then(() => {
    isStopped = true
  })
  while (!isStopped) {
    const from = new Date(clock.now() - overlapMs).toISOString()
    const following = client.followAudit(teamID, { ...query, from }, onEntry)
    // The server may be away for a restart.
    const ended = following.catch((error) => {
      if (!isAppError(error, 'unavailable')) throw error
    })
    await (stop ? Promise.race([ended, stop]) : ended)
    if (!isStopped) await new Promise<void>((resolve) => void clock.after(reconnectMs, resolve))
  }
  return ''
}

const unitMs: Record<string, number> = { m: 60_000, h: 3_600_000, d: 24 * 3_600_000 }

function timeOf(text: string, now: number): string {
  const [, count, unit = ''] = /^([1-9]\d{0,5})([mhd])$/.exec(text) ?? []
  if (count !== undefined) return new Date(now - Number(count) * unitMs[unit]!).toISOString()
  if (/^\d{4}-\d\d-\d\d/.test(text) && !Number.isNaN(Date.parse(text))) return new Date(text).toISOString()
  throw new UsageError(`--since is '${text}', but must be such as 30m, 12h, 7d or 2027-01-31.`, command)
}

const asLine = (entry: AuditEntry): string => JSON.stringify(entry)

const headings = ['TIME', 'WHO', 'FROM', 'ACTION', 'OBJECT', 'ANSWER']

const show = (entries: readonly AuditEntry[]): string => table(headings, entries.map(cells))

function cells({ at, person, credential, credentialID, address, action, object, status }: AuditEntry) {
  const who =
    person ?? (credentialID === undefined ? credential : `${credential} ${credentialID.slice(0, 8)}`)
  return [
    at.slice(0, 19).replace('T', ' '),
    who,
    address,
    action,
    object ?? '',
    status === undefined ? 'none' : String(status),
  ]
}
