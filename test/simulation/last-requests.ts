/** What is asked once everything has come to rest: each paused sandbox must come back, and each process must close. */
import { shortID } from './parked-calls.ts'
import type { WatchedSandbox } from './row-watch.ts'
import { writtenKey } from './simulated-agent.ts'
import type { Simulation } from './simulation.ts'
import { Violation } from './violation.ts'

/** Ends what runs, then resumes what is paused one after the other: each must come back as it was told. */
export async function checkContent(simulation: Simulation, rest: () => Promise<void>): Promise<void> {
  const { watch, ledger, nodes, teams } = simulation
  // Frozen sandboxes count against the limits of the team.
  const isFrozen = ({ snapshot }: WatchedSandbox) => (snapshot?.frozen ? 0 : 1)
  const rows = [...watch.sandboxes.values()].sort((one, other) => isFrozen(one) - isFrozen(other))
  const serviceOf = (id: string) => simulation.ownerOf(id).core!.service
  const perform = async <T>(work: Promise<T>): Promise<T | Error> => {
    const outcome = work.catch((error: Error) => error)
    await rest()
    return Promise.race([outcome, Promise.resolve(new Error('it never came to an end'))])
  }
  const kill = async ({ sandboxID, teamID }: WatchedSandbox) => {
    ledger.killAsked.add(sandboxID)
    const team = teams.find((one) => one.teamID === teamID)!
    return perform(serviceOf(sandboxID).kill(team, sandboxID))
  }
  const fail = (row: WatchedSandbox, text: string) =>
    simulation.report(new Violation('content kept', `${shortID(row.sandboxID)} ${text}`))
  for (const row of rows) {
    const isThere = !simulation.ownerOf(row.sandboxID).isGone
    if (isThere && watch.sandboxes.get(row.sandboxID)!.state === 'running') await kill(row)
  }
  for (const row of rows) {
    if (watch.sandboxes.get(row.sandboxID)!.state !== 'paused') continue
    const entry = ledger.entries.get(row.sandboxID)!
    const { keepsMemory, inMemory } = entry
    const isUnresponsive = row.snapshot?.agentUnresponsive === true
    const team = teams.find(({ teamID }) => teamID === row.teamID)!
    const wish = { timeoutMs: 600_000, memory: !isUnresponsive }
    const owner = simulation.ownerOf(row.sandboxID)
    if (owner.isGone && !row.isStored) continue
    const isMovable = row.isStored && simulation.builds.stored.has(row.buildID)
    if (isMovable && !row.options.volumeMounts?.length) {
      const after = [...nodes, ...nodes].slice(nodes.indexOf(owner) + 1)
      const other = after.find(({ isGone }) => !isGone)!
      const options = { memory: true, from: simulation.ownerOf(row.sandboxID).name }
      const claimed = await perform(other.core!.objectStorage!.migrator.claim(row.sandboxID, options))
      if (claimed !== true) return fail(row, `cannot be taken over: ${claimed}`)
    }
    const answer = await perform(serviceOf(row.sandboxID).connect(team, row.sandboxID, wish))
    if (answer instanceof Error) return fail(row, `is paused and cannot be resumed: ${answer.message}`)
    const there = simulation.inWorld(row.sandboxID)
    if (there?.files.get(writtenKey) !== entry.written && entry.written) {
      return fail(row, `came back with ${there?.files.get(writtenKey)} in its files, not ${entry.written}`)
    }
    if (keepsMemory && inMemory && !isUnresponsive && there?.memory.get(writtenKey) !== inMemory) {
      return fail(row, `came back with ${there?.memory.get(writtenKey)} in its memory, not ${inMemory}`)
    }
    await kill(row)
  }
  await rest()
}

/** What is under way comes to an end, and nothing waits for what will never come. */
export async function checkClose(simulation: Simulation, rest: () => Promise<void>): Promise<void> {
  const cores = simulation.nodes.flatMap(({ core }) => core ?? [])
  let open = cores.length
  for (const { service, builds, webhooks } of cores)
    void Promise.all([service.close(), builds.close(), webhooks?.dispatcher.close()]).then(() => open--)
  await rest()
  if (open > 0) simulation.report(new Violation('rest', 'a process cannot be closed'))
}
