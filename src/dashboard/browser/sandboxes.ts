/** The sandboxes of all teams in scope, and what can be done to one. */
import type { ListedSandbox, SandboxDetail } from '../../contract/rest/sandbox.ts'
import { ask, askAll, RestFailure } from './rest.ts'
import { ofTeams } from './session.ts'

export type TeamSandbox = ListedSandbox & { team: string }

let known: TeamSandbox[] = []

/** The sandboxes of the last list. */
export const knownSandboxes = (): readonly TeamSandbox[] => known

export async function listSandboxes(
  signal: AbortSignal,
  show: (rows: TeamSandbox[]) => void,
): Promise<TeamSandbox[]> {
  const rows = await ofTeams<ListedSandbox>(
    (team) =>
      askAll<ListedSandbox>('/v2/sandboxes?state=running,paused', {
        team,
        signal,
        onPage: (soFar) => show(soFar.map((one) => ({ ...one, team }))),
      }),
    show,
  )
  known = rows.sort((a, b) => (a.startedAt < b.startedAt ? 1 : -1))
  return known
}

const at = (sandboxID: string, rest = '') => `/sandboxes/${encodeURIComponent(sandboxID)}${rest}`

export type SandboxRef = { sandboxID: string; team: string | undefined }

export const readSandbox = ({ sandboxID, team }: SandboxRef, signal?: AbortSignal): Promise<SandboxDetail> =>
  ask(at(sandboxID), { team, signal })

export const pauseSandbox = ({ sandboxID, team }: SandboxRef): Promise<unknown> =>
  ask(at(sandboxID, '/pause'), { team, body: {} })

export const resumeSandbox = ({ sandboxID, team }: SandboxRef, timeout: number): Promise<unknown> =>
  ask(`/v2${at(sandboxID, '/connect')}`, { team, body: { timeout }, repeatable: true })

export const setTimeoutOf = ({ sandboxID, team }: SandboxRef, timeout: number): Promise<unknown> =>
  ask(at(sandboxID, '/timeout'), { team, body: { timeout }, repeatable: true })

export const snapshotSandbox = (
  { sandboxID, team }: SandboxRef,
  name: string,
): Promise<{ snapshotID: string; names: string[] }> =>
  ask(at(sandboxID, '/snapshots'), { team, body: { ...(name !== '' && { name }) } })

type ForkAnswer = { sandbox?: { sandboxID: string }; error?: { message: string } }[]

/** Resolves with the ids of the copies; rejects if there is none. */
export async function forkSandbox({ sandboxID, team }: SandboxRef, count: number): Promise<string[]> {
  const answer = await ask<ForkAnswer>(at(sandboxID, '/fork'), { team, body: { count } })
  const made = answer.flatMap(({ sandbox }) => (sandbox ? [sandbox.sandboxID] : []))
  if (made.length === 0) throw new RestFailure(500, answer[0]?.error?.message ?? 'No copy was made.')
  return made
}

/** Kills a sandbox; one that is already gone is success. */
export async function killSandbox({ sandboxID, team }: SandboxRef): Promise<void> {
  await ask(at(sandboxID), { method: 'DELETE', team }).catch((error) => {
    if (!(error instanceof RestFailure) || error.status !== 404) throw error
  })
}

const killsAtOnce = 8

/** Resolves with how many could not be killed, and why the first of them was not. */
export async function killMany(refs: readonly SandboxRef[]): Promise<{ failed: number; why: unknown }> {
  const waiting = [...refs]
  let failed = 0
  let why: unknown
  const loadNext = async () => {
    for (let ref = waiting.pop(); ref; ref = waiting.pop()) {
      await killSandbox(ref).catch((error) => {
        failed++
        why ??= error
      })
    }
  }
  await Promise.all(Array.from({ length: killsAtOnce }, loadNext))
  return { failed, why }
}
