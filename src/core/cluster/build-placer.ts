/** Sends a build that starts from a template to the node that has the template, if only one node has it. */
import { AppError } from '../../lib/app-error.ts'
import type { Team } from '../team/team.ts'
import type { TemplateCatalog } from '../template/catalog.ts'
import { parseTemplateReference } from '../template/reference.ts'
import type { StartRequest } from '../template/start-request.ts'
import type { DoorExchange, Forwarder } from './forwarder.ts'
import type { Membership } from './membership.ts'
import { isUnreachable } from './node.ts'
import type { LocatedBuild, OwnerStore } from './owner-store.ts'

type BuildPlacerParts<Exchange extends DoorExchange> = {
  membership: Pick<Membership, 'nodeID' | 'find'>
  owners: Pick<OwnerStore, 'locateBuild' | 'giveBuild'>
  forwarder: Pick<Forwarder<Exchange>, 'isFromPeer' | 'refuseAsMisdirected' | 'send'>
  catalog: Pick<TemplateCatalog, 'find'>
}

type PlacedBuild = {
  buildID: string
  start: Pick<StartRequest, 'from' | 'steps'>
  /** Makes the request body for the other node. */
  body: () => Buffer
}

export class BuildPlacer<Exchange extends DoorExchange> {
  readonly #parts: BuildPlacerParts<Exchange>

  constructor(parts: BuildPlacerParts<Exchange>) {
    this.#parts = parts
  }

  /** Returns false if the build must be started here, and true if the request has been answered. */
  async placeBuild(team: Team, { buildID, start, body }: PlacedBuild, exchange: Exchange): Promise<boolean> {
    const { membership, owners, forwarder } = this.#parts
    const source = 'template' in start.from ? await this.#locate(team, start.from.template) : undefined
    if (!source || source.isStored || source.nodeID === membership.nodeID) return false
    const node = await membership.find(source.nodeID)
    if (!node || isUnreachable(node)) throw sourceIsUnreachable(source)
    if (start.steps.some(({ filesHash }) => filesHash !== null)) throw filesAreHere(source, membership.nodeID)
    // Until it starts, a build is only a row. If the row has moved on, the start on this node reports why it
    // cannot start.
    if (!(await owners.giveBuild(buildID, membership.nodeID, source.nodeID))) return false
    if (forwarder.isFromPeer(exchange.request)) {
      // The peer looks up the build's owner again.
      forwarder.refuseAsMisdirected(exchange)
      return true
    }
    const outcome = await forwarder.send(source.nodeID, exchange, { body: body(), needs: undefined })
    if (outcome === 'answered') return true
    throw sourceIsUnreachable(source)
  }

  /**
   * Undefined also for the base template, which every node builds itself, and for errors that the start of
   * the build reports.
   */
  async #locate(team: Team, reference: string): Promise<LocatedBuild | undefined> {
    const template = await this.#parts.catalog.find(team, reference)
    if (!template || template.teamID === null) return undefined
    return this.#parts.owners.locateBuild(template.templateID, parseTemplateReference(reference).tag)
  }
}

const sourceIsUnreachable = ({ nodeID }: LocatedBuild): AppError =>
  new AppError(
    'unavailable',
    `The template that the build starts from is on node ${nodeID} only, which is away. Try again when it is back.`,
    { retry: { should: true, afterSeconds: 5 } },
  )

const filesAreHere = ({ nodeID }: LocatedBuild, here: string): AppError =>
  new AppError(
    'conflict',
    `The template that the build starts from is on node ${nodeID} only, and the files of its COPY steps are on node ` +
      `${here}. Request the build from node ${nodeID}, or give the machines an object store, which ` +
      'brings templates and files to all of them (docs/object-store.md).',
    { retry: { should: false } },
  )
