/** The insert of a sandbox within the limits of its team, by two waits for the database. */
import type { Kysely, Transaction } from 'kysely'
import type { NewSandbox } from '../../core/sandbox/row/sandbox.ts'
import type { IdempotencyClaim, SandboxStore } from '../../core/sandbox/row/sandbox-store.ts'
import type { TeamLimits } from '../../core/team/team.ts'
import type { SandboxRow, Tables } from '../database/tables.ts'
import { runAndCommit, runTogether } from '../database/together.ts'
import { keepingTemplate, unknownTemplate } from '../template/template-tags.ts'
import { exceededLimit, lockingTeam, unknownTeam } from '../usage/limits.ts'
import { sumOfTeam, usageIn } from '../usage/sandbox-counts.ts'
import { type ClaimKey, findingClaim, insertingSandbox, useVolumes } from './sandbox-queries.ts'
import { hashOf } from './sandbox-row.ts'

type WantedInsert = {
  sandbox: NewSandbox
  row: SandboxRow
  limits: TeamLimits
  claim: IdempotencyClaim | undefined
}

export function insertWithinLimits(
  db: Kysely<Tables>,
  { sandbox, row, limits, claim }: WantedInsert,
): ReturnType<SandboxStore['insertWithinLimits']> {
  const { teamID, templateID } = sandbox
  const claimed = claim && { team_id: teamID, key_hash: hashOf(claim.key) }
  // Each statement must see the commits that happened while this one waited for the team's row.
  const transaction = db.transaction().setIsolationLevel('read committed')
  return transaction.execute(async (locked) => {
    const attemptHash = claim?.attemptKey && hashOf(claim.attemptKey)
    const { team, earlier, isGivenUp, used, template } = await lockAndRead(locked, sandbox, {
      claimed,
      attemptHash,
    })
    if (!team) throw unknownTeam(teamID)
    if (isGivenUp) return { inserted: false, isGivenUp }
    if (earlier) return { inserted: false, earlier }
    const exceeded = await exceededLimit(locked, sandbox, limits, used)
    if (exceeded) return { inserted: false, exceeded }
    if (!template) throw unknownTemplate(templateID)
    const inserts = insertingSandbox(locked, row, sandbox.metadata)
    if (claimed) {
      const { requestHash: request_hash } = claim
      const made = { ...claimed, request_hash, sandbox_id: row.id, created_at: row.created_at }
      inserts.push(locked.insertInto('idempotency_claims').values(made))
    }
    if (sandbox.options.volumeMounts) {
      await runTogether(locked, inserts)
      await useVolumes(locked, sandbox)
    } else await runAndCommit(locked, inserts)
    return { inserted: true }
  })
}

/** From here on the sandbox's template cannot be deleted. */
async function lockAndRead(
  locked: Transaction<Tables>,
  { teamID, templateID }: NewSandbox,
  { claimed, attemptHash }: { claimed: ClaimKey | undefined; attemptHash: string | undefined },
) {
  const [team, sums, template, claims] = await runTogether(locked, [
    lockingTeam(locked, teamID),
    sumOfTeam(locked, teamID),
    keepingTemplate(locked, templateID),
    ...(claimed ? [findingClaim(locked, claimed, attemptHash)] : []),
  ])
  const found = claims?.rows ?? []
  const earlier = found.find(({ sandboxID }) => sandboxID !== '')
  return {
    team: team.rows[0],
    used: usageIn(sums.rows[0]),
    template: template.rows[0],
    earlier: earlier && { ...earlier },
    isGivenUp: found.some(({ sandboxID }) => sandboxID === ''),
  }
}
