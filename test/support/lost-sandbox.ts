import { type Fixture, request } from './domain.ts'

/** A paused sandbox whose row ended as if by a fault: its snapshot is in quarantine. */
export async function loseSandbox({ service, team, stores, quarantine }: Fixture) {
  const { sandboxID } = await service.create(team, request())
  await service.pause(team, sandboxID, { memory: true, requireHealthyAgent: false })
  const { snapshot, runID } = (await stores.sandboxes.find(sandboxID))!
  await stores.sandboxes.transition({ sandboxID, runID, from: ['paused'] }, 'killing')
  const ended = { endedAt: 1, endReason: 'lost' as const, snapshot: null }
  await stores.sandboxes.transition({ sandboxID, runID, from: ['killing'] }, 'ended', ended)
  await quarantine.add(snapshot!.name, 'No row names it.')
  return { sandboxID, snapshotName: snapshot!.name }
}
