/**
 * Binds the form of the sign-in page to the address that the page showed: a form without a valid seal was
 * never shown to anybody. Every server of a cluster can check it, because it is computed from a shared
 * secret.
 */
import { createHmac } from 'node:crypto'
import { sameSecret } from '../../../core/team/team.ts'

/** How long a page may stay open before its form is sent. */
const lifetimeMs = 15 * 60_000

export class FormSeal {
  readonly #secret: string

  constructor(secret: string) {
    this.#secret = secret
  }

  make(address: URL, nowMs: number): string {
    const endsAt = nowMs + lifetimeMs
    return `${endsAt}.${this.#digest(address, endsAt)}`
  }

  isValid(seal: string, address: URL, nowMs: number): boolean {
    const [, endsAt = '0', digest = ''] = /^(\d{1,16})\.([\w-]{43})$/.exec(seal) ?? []
    return Number(endsAt) > nowMs && sameSecret(digest, this.#digest(address, Number(endsAt)))
  }

  #digest(address: URL, endsAt: number): string {
    const text = `sign in at ${address.href} until ${endsAt}`
    return createHmac('sha256', this.#secret).update(text).digest('base64url')
  }
}
