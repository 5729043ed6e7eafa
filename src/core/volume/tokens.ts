/**
 * Tokens for the content of one volume. A token is computed from the server's seed, the volume and its expiry
 * time, so none is stored; clients see an opaque text.
 */
import { createHmac } from 'node:crypto'
import { AppError } from '../../lib/app-error.ts'
import type { Clock } from '../../lib/clock.ts'
import { sameSecret } from '../team/team.ts'

const prefix = 'vol_'
const lastsMs = 3_600_000
const form = /^vol_(\d{1,16})_([0-9a-f]{64})$/

export class VolumeTokens {
  readonly #seed: string
  readonly #clock: Clock

  constructor({ seed, clock }: { seed: string; clock: Clock }) {
    this.#seed = seed
    this.#clock = clock
  }

  issue(volumeID: string): string {
    const endsAt = this.#clock.now() + lastsMs
    return `${prefix}${endsAt}_${this.#sign(volumeID, endsAt)}`
  }

  /** Throws the same error for a missing volume as for a wrong token. */
  check(volumeID: string, token: string | undefined): void {
    const [, endsAt, signature] = form.exec(token ?? '') ?? []
    const isGenuine = endsAt !== undefined && sameSecret(signature!, this.#sign(volumeID, Number(endsAt)))
    if (!isGenuine) {
      throw unauthenticated('send the token of this volume as Authorization: Bearer TOKEN')
    }
    if (Number(endsAt) <= this.#clock.now()) throw unauthenticated('the token has expired')
  }

  #sign(volumeID: string, endsAt: number): string {
    return createHmac('sha256', this.#seed).update(`volume-content-${volumeID}-${endsAt}`).digest('hex')
  }
}

const unauthenticated = (why: string) =>
  new AppError('unauthenticated', `Volume content: ${why}; GET /volumes/{volumeID} gives a fresh one`)
